"""A data directory in Kafka's format: partition logs, their indexes and checkpoints, and Kafka's rules about them. No code here handles
requests, and a log gets the time as an argument."""
