"""The partitions that this broker hosts: appends, syncs, replication, fetch sessions and pending requests."""
