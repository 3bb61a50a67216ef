"""Kafka's wire protocol and record batches: bytes to typed values and back. Nothing here knows the broker; only `client` does I/O."""
