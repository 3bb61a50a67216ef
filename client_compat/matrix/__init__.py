"""The compatibility matrix: the same scenarios with real clients in several languages, against Ottla, Apache Kafka and tansu (a broker
written in Rust)."""
