"""Timers on the event loop, and background work."""
