"""Injects faults into a cluster that consists of Ottla alone, three brokers and a controller. The faults are restarts, kills and pauses, as
in `cluster_mixed` (for clusters of Ottla and Apache Kafka), and also cut network links and full disks."""
