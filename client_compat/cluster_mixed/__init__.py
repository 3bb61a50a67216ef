"""Brokers of a cluster restarted, killed and stopped under load, and then every promise of exactly-once against their directories."""
