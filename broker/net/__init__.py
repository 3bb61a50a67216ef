"""Networking: listeners, a pure session for each connection, and a thin asyncio shell around it."""
