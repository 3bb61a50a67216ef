"""Ottla: a Kafka broker in Python, and an audit of Kafka logs. `testing`, `audit` and `protocol` are public (docs/public-api.md).

Importing this package imports nothing else, because tools import it in every environment that has Ottla installed; pytest does, for
plugins.
"""
