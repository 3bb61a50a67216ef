"""Shared parts of the programs here: brokers and clients as processes, loads, readers, verdicts, and the shape of a command."""
