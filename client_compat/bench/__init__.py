"""Benchmarks of Ottla and other brokers, in one run and with the same clients."""
