"""Deterministic simulation: a whole cluster on one loop with simulated clocks, network and disks. A run follows entirely from its seed."""
