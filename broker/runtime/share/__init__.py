"""Share groups (KIP-932) at a partition's leader: loads share partitions, writes their state, and runs waiting share fetches."""
