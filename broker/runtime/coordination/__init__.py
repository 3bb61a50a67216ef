"""Coordinators of groups and transactions, on the partitions of their internal topics that this broker leads."""
