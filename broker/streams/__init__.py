"""Computations of a streams group (KIP-1071): topologies, internal topics, tasks and their assignment. Pure: no I/O, no clock."""
