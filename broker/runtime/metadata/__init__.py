"""The cluster's metadata in this broker: how it is applied, and a standalone node's connection to its own controller."""
