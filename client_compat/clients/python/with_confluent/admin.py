"""confluent-kafka's admin client, which returns a future for each topic, group or partition."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from client_compat.clients.control import Answer, Request
from client_compat.clients.python.with_confluent import errors

RESOURCES = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER}
SPECS = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest, "max_timestamp": OffsetSpec.max_timestamp}


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("confluent-kafka"))

    def close(self) -> None:
        """Do nothing: an admin client has no close and ends with its last reference."""

    def create_topics(self, request: Request) -> Answer:
        wanted = [
            NewTopic(one["name"], one["partitions"], one.get("replication", 1), config=one.get("configs") or {})
            for one in request["topics"]
        ]
        return _results(self._admin.create_topics(wanted, request_timeout=request.timeout_s), request)

    def delete_topics(self, request: Request) -> Answer:
        return _results(self._admin.delete_topics(request["topics"], request_timeout=request.timeout_s), request)

    def list_topics(self, request: Request) -> Answer:
        names = list(self._admin.list_topics(timeout=request.timeout_s).topics)
        described = self._admin.describe_topics(TopicCollection(names), request_timeout=request.timeout_s) if names else {}
        return {"topics": [name for name, topic in described.items() if not _value(topic, request).is_internal]}

    def describe_topic(self, request: Request) -> Answer:
        (topic,) = self._admin.describe_topics(TopicCollection([request["topic"]]), request_timeout=request.timeout_s).values()
        return {
            "partitions": [
                {
                    "partition": one.id,
                    "leader": one.leader.id if one.leader else -1,
                    "replicas": [node.id for node in one.replicas],
                    "isr": [node.id for node in one.isr],
                }
                for one in _value(topic, request).partitions
            ]
        }

    def create_partitions(self, request: Request) -> None:
        wanted = [NewPartitions(request["topic"], request["count"])]
        _all(self._admin.create_partitions(wanted, request_timeout=request.timeout_s), request)

    def describe_configs(self, request: Request) -> Answer:
        resource = ConfigResource(RESOURCES[request["resource"]], request["name"])
        (entries,) = _all(self._admin.describe_configs([resource], request_timeout=request.timeout_s), request).values()
        return {"configs": {name: entry.value for name, entry in entries.items()}}

    def alter_configs(self, request: Request) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in (request.get("set") or {}).items()
        ]
        changes += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in request.get("delete") or ()]
        resource = ConfigResource(RESOURCES[request["resource"]], request["name"], incremental_configs=changes)
        _all(self._admin.incremental_alter_configs([resource], request_timeout=request.timeout_s), request)

    def delete_records(self, request: Request) -> Answer:
        wanted = [TopicPartition(topic, index, before) for topic, index, before in request["offsets"]]
        result = _all(self._admin.delete_records(wanted, request_timeout=request.timeout_s), request)
        return {"low": [[one.topic, one.partition, deleted.low_watermark] for one, deleted in result.items()]}

    def list_offsets(self, request: Request) -> Answer:
        wanted = {TopicPartition(topic, index): _spec(at) for topic, index, at in request["offsets"]}
        result = _all(self._admin.list_offsets(wanted, request_timeout=request.timeout_s), request)
        return {"offsets": [[one.topic, one.partition, found.offset] for one, found in result.items()]}

    def list_groups(self, request: Request) -> Answer:
        result = _value(self._admin.list_consumer_groups(request_timeout=request.timeout_s), request)
        if result.errors:
            raise result.errors[0]
        return {"groups": [[one.group_id, _word(one.type), _word(one.state)] for one in result.valid]}

    def describe_group(self, request: Request) -> Answer:
        result = _all(self._admin.describe_consumer_groups([request["group"]], request_timeout=request.timeout_s), request)[
            request["group"]
        ]
        members = [
            {
                "id": one.member_id,
                "client_id": one.client_id,
                "instance_id": one.group_instance_id,
                "partitions": [[place.topic, place.partition] for place in one.assignment.topic_partitions],
            }
            for one in result.members
        ]
        kind = {"type": _word(result.type)} if hasattr(result, "type") else {}  # 2.6 has none
        return {"state": _word(result.state), "assignor": result.partition_assignor, "members": members, **kind}

    def group_offsets(self, request: Request) -> Answer:
        groups = [ConsumerGroupTopicPartitions(request["group"])]
        (result,) = _all(self._admin.list_consumer_group_offsets(groups, request_timeout=request.timeout_s), request).values()
        for one in result.topic_partitions:
            errors.check(one.error)
        return {"offsets": [[one.topic, one.partition, one.offset] for one in result.topic_partitions]}

    def alter_group_offsets(self, request: Request) -> None:
        wanted = [TopicPartition(topic, index, offset) for topic, index, offset in request["offsets"]]
        groups = [ConsumerGroupTopicPartitions(request["group"], wanted)]
        (result,) = _all(self._admin.alter_consumer_group_offsets(groups, request_timeout=request.timeout_s), request).values()
        for one in result.topic_partitions:
            errors.check(one.error)

    def delete_groups(self, request: Request) -> Answer:
        return _results(self._admin.delete_consumer_groups(request["groups"], request_timeout=request.timeout_s), request)

    def describe_cluster(self, request: Request) -> Answer:
        result = _value(self._admin.describe_cluster(request_timeout=request.timeout_s), request)
        nodes = [[one.id, one.host, one.port] for one in result.nodes]
        return {"cluster_id": result.cluster_id, "controller": result.controller.id if result.controller else None, "nodes": nodes}


def _value(future: Future[Any], request: Request) -> Any:
    return future.result(request.timeout_s)


def _all(futures: Mapping[Any, Future[Any]], request: Request) -> dict[Any, Any]:
    return {name: _value(future, request) for name, future in futures.items()}


def _results(futures: Mapping[str, Future[Any]], request: Request) -> Answer:
    """Wait for the future of each name (such as a topic), and return the answer `results`: None for a success, otherwise the error, by
    name."""
    results: dict[str, Answer | None] = {}
    for name, future in futures.items():
        try:
            _value(future, request)
        except KafkaException as error:
            failed = errors.failure(error)
            results[name] = failed.as_json() if failed else {"code": "CLIENT:KafkaException", "message": str(error)}
        else:
            results[name] = None
    return {"results": results}


def _spec(at: int | str) -> OffsetSpec:
    make: Any = (lambda: OffsetSpec.for_timestamp(at)) if isinstance(at, int) else SPECS[at]
    spec: OffsetSpec = make()
    return spec


def _word(value: Any) -> str | None:
    """Return the name of an enum member in lower case, such as `preparing_rebalancing`; None for None."""
    return None if value is None else value.name.lower()
