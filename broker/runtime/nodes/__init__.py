"""Connections to other cluster nodes, and the requests that a broker sends to the controller."""
