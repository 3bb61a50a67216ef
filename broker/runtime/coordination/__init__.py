"""Coordinators: the partitions of internal topics that this broker coordinates, and what groups and transactions do there."""
