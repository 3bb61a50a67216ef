"""Share groups (KIP-932): which member holds which record of a share partition, and share sessions. Pure."""
