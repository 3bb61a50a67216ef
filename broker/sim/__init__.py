"""Deterministic simulation of a cluster: brokers, controller and clients on one event loop, with simulated clocks, network and disks. A run
follows entirely from its seed."""
