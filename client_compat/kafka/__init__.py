"""Apache Kafka itself, as the reference: its broker as one node, and its own tools, from its published jars."""
