"""The campaign of `cluster_mixed` without Apache Kafka: three brokers and a controller of Ottla, also with cut links and full disks."""
