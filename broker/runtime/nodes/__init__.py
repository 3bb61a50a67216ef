"""Connections to other nodes of the cluster, and the requests that a broker sends to the controller."""
