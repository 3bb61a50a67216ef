"""Settings of topics, brokers, groups, client metrics and loggers: which exist, which values are in force, how they are described."""
