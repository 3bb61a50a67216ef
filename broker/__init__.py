"""The Ottla broker."""
