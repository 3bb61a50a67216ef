"""The replication protocol of one partition replica, without I/O: leadership, ISR, high watermark, fetch positions and pending
acknowledgements."""
