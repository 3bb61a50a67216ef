"""The transaction coordinator's state machines. Pure code: nothing here reads a clock, a socket or a file."""
