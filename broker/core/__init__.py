"""Modules that every layer of the broker may import: settings, limits, clock, timers, and the two possible results of an operation:
`Effects` (records and a response), or the exception `Rejected`.
"""
