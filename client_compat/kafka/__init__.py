"""Apache Kafka itself, as the reference: its broker as one node, and its own tools, both from its published jars."""
