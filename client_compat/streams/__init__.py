"""A stream application of Kafka's own library, restarted each round while the broker is stopped cleanly and killed in turns."""
