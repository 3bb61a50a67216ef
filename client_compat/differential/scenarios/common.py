"""Helpers that many scenarios use: topics, batches and polling. Record timestamps are of 2001, so that they are never mistaken for the time
of the broker's clock."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from client_compat.differential.probe import Probe
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

TIME = 1_000_000_000_000
"""The first record's timestamp: September 2001, in milliseconds."""

WAIT_S = 30.0
POLL_S = 0.002
UNKNOWN_ID = b"\x07" * 16


def scenarios_in(modules: Sequence[ModuleType], side: str) -> dict[str, Callable[[Any], None]]:
    """Return the scenarios of the modules as `module.function`, in the order of the source.

    A scenario is a public function whose only parameter is `side`: the probe of a broker, or the nodes of a cluster.
    """
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
        if list(inspect.signature(function).parameters) == [side]
    }


def create(probe: Probe, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> bytes:
    """Create a topic and return its id. Retention is off, because the records have timestamps of 2001. Raises TimeoutError if a partition
    has no leader after `WAIT_S`, and LookupError if the topic is not created, for instance because an older release lacks a setting.
    """
    given = {"retention.ms": "-1", **(configs or {})}
    topic = CreatableTopic(name, partitions, -1, configs=[CreatableTopicConfig(key, value) for key, value in given.items()])
    response = probe.ask(f"create {name}", CreateTopicsRequest([topic]))
    if response.topics[0].error_code:
        raise LookupError(f"{name} is not created: {response.topics[0].error_message}")
    topic_id: bytes = bytes(response.topics[0].topic_id)
    probe.names.learn(topic_id, f"id of {name}")
    wait_until_led(probe, name, partitions)
    return topic_id


def wait_until_led(probe: Probe, name: str, partitions: int) -> None:
    """Wait until the broker leads every partition. Apache Kafka acknowledges CreateTopics before the broker has applied the metadata."""
    wanted = ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, -1) for index in range(partitions)])
    for _ in until(f"{name} has a leader"):
        (topic,) = probe.ask_unrecorded(ListOffsetsRequest(-1, 0, [wanted], 5_000), 7).topics
        if not any(partition.error_code for partition in topic.partitions):
            return


def wait_until_deleted(probe: Probe, topic_id: bytes) -> None:
    """Wait until the broker does not know the topic. Apache Kafka acknowledges DeleteTopics before the broker has applied the metadata."""
    request = MetadataRequest([MetadataRequestTopic(topic_id, None)], False)
    for _ in until("the topic is deleted"):
        if probe.ask_unrecorded(request, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            return


def wait_until_coordinated(probe: Probe) -> None:
    """Wait until groups and transactions have a coordinator.

    The first FindCoordinator creates the topic; Apache Kafka does so asynchronously.
    """
    for _ in until("groups and transactions have a coordinator"):
        if (
            any(_coordinator_error(probe, kind) for kind in (0, 1))
            or probe.ask_unrecorded(HeartbeatRequest("any", 1, "nobody"), 4).error_code != ErrorCode.UNKNOWN_MEMBER_ID
        ):
            continue
        if probe.ask_unrecorded(InitProducerIdRequest("warm-up", 60_000), 4).error_code == ErrorCode.NONE:
            return


def _coordinator_error(probe: Probe, kind: int) -> int:
    found = probe.ask_unrecorded(FindCoordinatorRequest("any", kind, ["any"]), 4)
    code: int = found.coordinators[0].error_code if found.coordinators else found.error_code
    return code


def until(what: str) -> Iterator[None]:
    """Yield every POLL_S seconds, until the caller leaves its `for` loop. Raises TimeoutError if it is not left within WAIT_S; `what` names
    the awaited condition."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL_S)
    raise TimeoutError(f"not within {WAIT_S:.0f} s: {what}")


def batch(*values: bytes, at: int = 0, keys: Sequence[bytes | None] = (), **fields: Any) -> bytes:
    """Return one encoded record batch with these values and, if given, `keys`. Record n has the timestamp `TIME` + `at` + n (milliseconds).
    `fields`: further arguments of `build_batch`, such as `producer_id`."""
    named = keys or [None] * len(values)
    return build_batch(
        [SimpleRecord(key, value, TIME + at + n) for n, (key, value) in enumerate(zip(named, values, strict=True))], **fields
    )


def produce_request(probe: Probe, topic: str, topic_id: bytes, records: bytes | None, version: int, **fields: Any) -> ProduceRequest:
    """Return a Produce request for one partition, with the topic's name or id as the version requires."""
    partition = fields.pop("partition", 0)
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 5_000, "topic_data": [data], **fields})


def produce(probe: Probe, label: str, topic: str, records: bytes | None, version: int = 9, **fields: Any) -> Any:
    """Send one Produce request for one partition, which names the topic; record the response under `label` and return it decoded. `fields`:
    further arguments of `produce_request`."""
    return probe.ask(label, produce_request(probe, topic, bytes(16), records, version, **fields), version)


def producer_id(probe: Probe) -> int:
    """Send InitProducerId without a transactional id, and return the new producer id."""
    for _ in until("there are producer ids"):
        response = probe.ask_unrecorded(InitProducerIdRequest(None, 60_000), 4)
        if response.error_code == 0:
            return int(response.producer_id)
    raise AssertionError("unreachable: `until` raises")


def versions(probe: Probe, key: ApiKey, first: int = 0, last: int = 99) -> list[int]:
    """Return the versions of the API between `first` and `last` that both brokers support."""
    return [version for version in probe.range(key) if first <= version <= last]
