"""Partitions of this broker: appends, syncs, and everyone who waits for them."""
