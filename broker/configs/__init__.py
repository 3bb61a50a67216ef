"""Settings of topics, brokers, groups, client metrics and loggers: which settings exist, which values are in force, and how DescribeConfigs
returns them."""
