"""What articles teach about exactly-once, run: `python -m client_compat.claims [NUMBER]`. docs/exactly-once.md explains."""
