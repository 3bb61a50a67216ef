"""Ottla, the broker."""
