"""Share groups (KIP-932): the delivery state of each share partition (which member has acquired which record), and share sessions. No I/O.
A share partition is a topic partition as one share group sees it."""
