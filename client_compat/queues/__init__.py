"""The two programs of docs/queues.md: the same jobs, read by a consumer group and worked off by a share group."""
