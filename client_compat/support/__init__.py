"""Shared parts of the programs of `client_compat`: broker and client processes, producer loads, topic readers, the comparison of a log with
its acknowledgements, and command-line handling."""
