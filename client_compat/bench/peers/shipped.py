"""Apache Kafka as shipped: heap and garbage collector of its start script, the C2 compiler, and default threads and timers."""

from __future__ import annotations

# bin/kafka-server-start.sh (heap) and bin/kafka-run-class.sh (the rest).
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# Restores Kafka's defaults where the test harness uses smaller values.
KAFKA_SETTINGS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
}
CLUSTER_SETTINGS = {
    **KAFKA_SETTINGS,
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "leader.imbalance.check.interval.seconds": "300",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
}
"""Settings of every node of a cluster, whether the node is Ottla or Apache Kafka."""
