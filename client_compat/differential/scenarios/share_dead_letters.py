"""Compare Ottla with Apache Kafka by dead letter queues of share groups (KIP-1191): the records that are written to them, and groups whose
queue cannot be used.

Rules:
- Releases without dead letter queues reject the group's setting, which ends a scenario.
- The records of a queue are compared, not its batches, because Apache Kafka may write several dead letters in one batch.
"""

from __future__ import annotations

from client_compat.differential.probe import Probe, Seen
from client_compat.differential.scenarios.common import TIME, batch, create, produce, until
from client_compat.differential.scenarios.fetch import part, request
from client_compat.differential.scenarios.share_fetch import filled
from client_compat.differential.scenarios.share_members import GROUP_RESOURCE, REJECT, RELEASE, SLOW, Given, ShareMember, share_topic
from client_compat.differential.scenarios.share_state import ARCHIVED, read
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
ENABLE = "errors.deadletterqueue.group.enable"
AUTO_CREATE, PREFIX = "errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix"
TOPIC, BROKER = 2, 4
BY_NAME = 12
"""The last version of Fetch that names topics; later versions use topic ids."""


def contents(probe: Probe) -> None:
    """Reject records, and let others exceed the delivery limit, in two groups. The dead letters of one group contain copies of the records,
    those of the other do not."""
    for copies in ("false", "true"):
        name, queue = f"dl-{copies}", f"dlq.dl-{copies}"
        if not _altered(probe, GROUP_RESOURCE, name, {NAME: queue, COPY: copies, "share.delivery.count.limit": "2"}):
            return
        create(probe, queue, 2, {ENABLE: "true", "max.message.bytes": "5000"})
        topic_id = share_topic(probe, name, name, 4)
        filled(probe, name, 4, partition=3)
        for label, records in _SOURCES.items():
            produce(probe, label, name, records, partition=3)
        member = ShareMember(probe, name, "m", topic_id, partitions=(3,))
        member.fetch("all", **SLOW)
        for label, given in _GIVEN_UP.items():
            member.acknowledge(label, given, partition=3)
            if label == "releases":
                member.fetch("the last time", **SLOW)
            else:
                _wait_until_archived(probe, name, topic_id, given[1], partition=3)
                probe.ask(label, read(name, topic_id, 3))
        _read_queue(probe, queue, 1)
        member.close()


_SOURCES = {
    "with headers": build_batch([SimpleRecord(b"key", b"value", TIME, [("own", b"header")])]),
    "empty": build_batch([SimpleRecord(b"", b"", TIME), SimpleRecord(b"tombstone", None, TIME)]),
    "compressed": batch(b"a" * 100, b"b" * 100, codec=Codec.GZIP),
    "larger than the queue takes": batch(b"c" * 6_000),
    "smaller after it": batch(b"d"),
    "decompressed larger than the queue takes": batch(b"e" * 6_000, b"f", codec=Codec.GZIP),
    "many bytes": batch(*[b"g" * 2_000] * 4),
}
_GIVEN_UP: dict[str, Given] = {
    "rejects one": (1, 1, [REJECT]),
    "rejects two": (2, 3, [REJECT]),
    "rejects records of all kinds": (4, 8, [REJECT]),
    "rejects large records": (9, 12, [REJECT]),
    "rejects many bytes": (13, 16, [REJECT]),
    "releases": (0, 0, [RELEASE]),
    "releases again": (0, 0, [RELEASE]),
}


def unusable(probe: Probe) -> None:
    """Reject a record in groups whose dead letter queue does not exist, is not enabled, or has a forbidden name. The record is archived,
    and no dead letter is written."""
    if not _altered(probe, GROUP_RESOURCE, "du", {NAME: "dlq.du"}):
        return
    for value in ("__dlq", "", " dlq.du ", "a name", "dlq.du"):
        _altered(probe, GROUP_RESOURCE, "du", {NAME: value})
    for value in ("maybe", "TRUE"):
        _altered(probe, GROUP_RESOURCE, "du", {COPY: value})
    probe.ask("describe the group", DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, "du", None)], True, True))
    create(probe, "dlq.du-plain")
    create(probe, "other.du", configs={ENABLE: "true"})
    for queue in ("dlq.du", "dlq.du-plain", "other.du"):
        _gives_up(probe, f"g-{queue}", queue)
        probe.ask(f"{queue}?", MetadataRequest([MetadataRequestTopic(name=queue)], False), 9)
    for name in ("dlq.du-plain", "other.du"):
        _read_queue(probe, name)


def created(probe: Probe) -> None:
    """Let the broker create dead letter queues: with a configured name prefix, without it, and with names that no topic can have."""
    if not _altered(probe, GROUP_RESOURCE, "dc", {NAME: "dlq.dc"}):
        return
    for name, value in ((AUTO_CREATE, "true"), (PREFIX, "dead.")):
        if not _altered(probe, BROKER, "", {name: value}):
            return
    for queue in ("dead.dc", "dead dc", "dead.dc!", "dlq.dc"):
        _gives_up(probe, f"g-{queue}", queue)
        probe.ask(f"{queue}?", MetadataRequest([MetadataRequestTopic(name=queue)], False), 9)
    probe.ask("describe the queue", DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "dead.dc", None)], True))
    _read_queue(probe, "dead.dc")
    for name in (AUTO_CREATE, PREFIX):
        _altered(probe, BROKER, "", {name: None})


def _altered(probe: Probe, kind: int, name: str, settings: dict[str, str | None]) -> bool:
    """Change settings of a resource; None deletes one. Return whether the broker accepted the change, which older releases do not."""
    configs = [AlterableConfig(key, int(value is None), value) for key, value in settings.items()]
    answer = probe.ask(f"{name}: {settings}", IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)]))
    return answer is not None and answer.responses[0].error_code == ErrorCode.NONE


def _gives_up(probe: Probe, group: str, queue: str) -> None:
    """Let the share group `group` reject a record, with `queue` as its dead letter queue, and wait until the record is archived."""
    _altered(probe, GROUP_RESOURCE, group, {NAME: queue})
    name = f"t.{group}".replace(" ", "-").replace("!", "-")
    topic_id = share_topic(probe, group, name)
    filled(probe, name, 2)
    member = ShareMember(probe, group, "m", topic_id)
    member.fetch("all", **SLOW)
    member.acknowledge("rejects one", (0, 0, [REJECT]))
    _wait_until_archived(probe, group, topic_id, 0)
    probe.ask(queue, read(group, topic_id))
    member.close()


def _wait_until_archived(probe: Probe, group: str, topic_id: bytes, offset: int, partition: int = 0) -> None:
    """Wait until the share coordinator reports the record as archived. By then its dead letter has been written."""
    for _ in until(f"{offset} is archived"):
        found = probe.ask_unrecorded(read(group, topic_id, partition), 0).results[0].partitions[0]
        states = [each.delivery_state for each in found.state_batches if each.first_offset <= offset <= each.last_offset]
        if found.start_offset > offset or states == [ARCHIVED]:
            return


def _read_queue(probe: Probe, queue: str, partition: int = 0) -> None:
    """Fetch the records in a partition of the dead letter queue, and add them to the recorded responses, in order."""
    answer = probe.ask_unrecorded(request(queue, bytes(16), part(partition)), BY_NAME)
    records = bytes(answer.responses[0].partitions[0].records or b"")
    batches = [records[position : position + header.size_bytes] for position, header in split_batches(records)]
    found = [repr((each.offset, each.key, each.value, *each.headers)) for one in batches for each in iter_records(one)]
    probe.seen.append(Seen(f"the records of {queue}", "FETCH", BY_NAME, found))
