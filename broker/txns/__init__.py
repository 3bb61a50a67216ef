"""Transactions: the coordinator's state as pure machines. Nothing here reads a clock, a socket or a file."""
