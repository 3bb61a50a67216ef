"""The measured brokers: Ottla, Apache Kafka, and light replacements of Kafka."""
