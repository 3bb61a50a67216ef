"""Spark's own Kafka connector as a client: batch writes and reads, and Structured Streaming for what is subscribed to."""
