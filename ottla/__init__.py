"""Ottla: a Kafka broker in Python, and the audit of what it wrote. `testing`, `audit` and `protocol` are public (docs/public-api.md).

Importing this imports nothing else: what starts with an environment that has Ottla in it, pytest above all, must not pay for a broker.
"""
