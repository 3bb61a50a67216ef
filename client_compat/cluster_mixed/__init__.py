"""Restarts, kills and stops brokers of a cluster under load, and then checks every guarantee of exactly-once on their directories."""
