"""Runs `ottla audit`, which finds lost, duplicated and damaged records in logs, on a real standalone Spark cluster: one master and two
workers on loopback, with the packaged wheel.

Spark's event log shows which worker ran which tasks.
"""
