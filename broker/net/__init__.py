"""Networking: listeners, and for each connection an asyncio protocol (`connection`) around a session without I/O (`session`)."""
