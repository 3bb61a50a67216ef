"""The log: Kafka's files and Kafka's rules about them. Nothing here waits, reads the clock, or knows about requests."""
