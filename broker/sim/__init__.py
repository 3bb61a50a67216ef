"""Deterministic simulation of a cluster: brokers, controller and clients on one event loop, with simulated clocks, network and disks. The
random seed alone determines a run, so that each run can be repeated."""
