"""The same campaign without Apache Kafka: three brokers and a controller of Ottla's, with links that are cut and disks that are full."""
