"""Configurations of topics, brokers, groups and loggers: which keys there are, what holds, and how they are told."""
