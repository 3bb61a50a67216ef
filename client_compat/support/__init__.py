"""Shared parts of the programs of `client_compat`: brokers and clients as processes, loads, readers, verdicts, and the frame of a
command."""
