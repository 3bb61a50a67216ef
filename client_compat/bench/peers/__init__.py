"""The brokers that are measured: this one, Apache Kafka, and the light ones that people use in its place."""
