"""A data directory in Kafka's format: partition logs, their indexes and checkpoints, and Kafka's rules about them. No code here handles
requests, and a log does not read the clock: its callers pass the time."""
