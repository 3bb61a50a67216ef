"""What the cluster consists of: topics, partitions, features and settings, as records and as the state that they make. Pure."""
