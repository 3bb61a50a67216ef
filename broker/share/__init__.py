"""Share groups (KIP-932): which member has acquired which record of a share partition, and share sessions. No I/O."""
