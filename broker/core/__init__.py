"""Basics that every layer of the broker may import: settings, limits, clock, timers, and the two forms of a result (effects, rejection)."""
