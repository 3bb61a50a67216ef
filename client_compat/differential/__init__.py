"""Differential mode: send the same requests to Apache Kafka and to Ottla, and compare the decoded responses field by field."""
