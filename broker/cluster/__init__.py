"""The cluster's metadata as records, and the state that they produce: topics, partitions, brokers, features, settings. Pure code."""
