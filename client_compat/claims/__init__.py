"""Tries common statements about exactly-once (claims) with real clients, and shows which of them hold: `python -m client_compat.claims
[NUMBER]`. docs/exactly-once.md explains each claim."""
