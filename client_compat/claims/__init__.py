"""Runs claims of articles about exactly-once: `python -m client_compat.claims [NUMBER]`. docs/exactly-once.md explains them."""
