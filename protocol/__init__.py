"""Kafka's wire protocol and record batches: converts bytes to typed values and back. Imports nothing of the broker. Only `client` uses
sockets."""
