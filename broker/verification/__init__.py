"""`ottla verify`: runs a user's Kafka program as a black box against brokers that fail on purpose, and judges which guarantees of
exactly-once processing held."""
