"""Runs `ottla verify` on every sample program. A correct program must keep every guarantee; a program with a mistake must break the
guarantee that this mistake concerns."""
