"""The broker's only layer that waits: for syncs and replication, in long polls, on timers, for other nodes, and in background work."""
