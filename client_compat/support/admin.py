"""Creates and deletes topics for the programs of `client_compat`, with confluent-kafka's admin client."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

ADMIN_TIMEOUT_S = 15.0


def create_topic(bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None, replicas: int = 1) -> None:
    """Create a topic. Raises KafkaException if the broker rejects it or does not answer."""
    admin = _admin(bootstrap)
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
    for future in admin.create_topics([wanted], operation_timeout=ADMIN_TIMEOUT_S).values():
        future.result(ADMIN_TIMEOUT_S)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic. Raises KafkaException if the broker rejects it or does not answer."""
    admin = _admin(bootstrap)
    for future in admin.delete_topics([topic], operation_timeout=ADMIN_TIMEOUT_S).values():
        future.result(ADMIN_TIMEOUT_S)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("admin"))
