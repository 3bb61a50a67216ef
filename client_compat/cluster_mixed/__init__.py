"""Restarts, kills and pauses the brokers of a cluster, of Apache Kafka and of Ottla, under load. Afterwards checks in their directories
that no acknowledged record is lost, duplicated or torn from its transaction."""
