"""Restarts of a Kafka Streams application and its broker: in each round both are stopped cleanly, or both are killed."""
