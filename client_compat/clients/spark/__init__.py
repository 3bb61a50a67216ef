"""Spark's Kafka connector as a client: batch writes and reads, and Structured Streaming for subscriptions."""
