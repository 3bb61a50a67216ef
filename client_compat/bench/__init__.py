"""Speed beside another broker, in one run, with the same client."""
