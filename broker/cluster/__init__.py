"""The cluster's metadata: the records of `__cluster_metadata`, and the state that they produce (topics, partitions, brokers, features,
settings). Pure code: no I/O, clock or randomness of its own.
"""
