"""Sockets: a pure session per connection, a thin asyncio shell around it, and the listeners."""
