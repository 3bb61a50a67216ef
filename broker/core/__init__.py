"""Modules that every layer of the broker may import: settings, limits, clock, timers, and the two results of an operation (`Effects`, or
the exception `Rejected`).
"""
