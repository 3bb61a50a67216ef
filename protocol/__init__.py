"""Kafka's wire protocol and record batches: bytes to typed values and back. Imports nothing of the broker; only `client` does I/O."""
