"""The quorum of one voter: its log, and what others are told of it."""
