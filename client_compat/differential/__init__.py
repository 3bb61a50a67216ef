"""Differential mode: the same requests to Apache Kafka and to this broker, their decoded responses compared field by field."""
