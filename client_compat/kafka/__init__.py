"""Apache Kafka as the reference for comparisons: single nodes, clusters and command-line tools, run from its published jars."""
