"""Compare Ottla with Apache Kafka by Fetch requests: every version, offsets out of range, epochs, size limits and sessions."""

from __future__ import annotations

from itertools import count
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, batch, create, produce, wait_until_deleted
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


def part(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> FetchPartition:
    """Return the element of a Fetch request for one partition. `fields`: further fields of it, such as `current_leader_epoch`."""
    return FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def request(topic: str, topic_id: bytes, *parts: FetchPartition, **fields: Any) -> FetchRequest:
    """Return a Fetch request for one topic and the partitions `parts`. Its maximum wait is 0, so the broker responds at once."""
    given = {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, **fields}
    return FetchRequest(topics=[FetchTopic(topic, topic_id, list(parts))] if parts else [], **given)


def filled(probe: Probe, name: str, partitions: int = 2) -> bytes:
    """Create a topic whose partition 0 has three batches of two records; return the topic's id."""
    topic_id = create(probe, name, partitions)
    for n in range(3):
        produce(probe, f"batch {n}", name, batch(b"a" * 100, b"b" * 100, at=n * 10))
    return topic_id


def reading(probe: Probe) -> None:
    """Fetch at each version: from the beginning, inside a batch, at the end, out of range, and from unknown partitions."""
    topic_id = filled(probe, "read")
    for version in probe.range(ApiKey.FETCH):
        for offset in (0, 1, 2, 5, 6, 7, -1, 1 << 40):
            probe.ask(f"from {offset}", request("read", topic_id, part(0, offset)), version)
        probe.ask("an empty partition", request("read", topic_id, part(1)), version)
        probe.ask("unknown partition", request("read", topic_id, part(9)), version)
        probe.ask("negative partition", request("read", topic_id, part(-1)), version)
        probe.ask("unknown topic", request("nowhere", UNKNOWN_ID, part()), version)
        probe.ask("no topic", request("", bytes(16), part()), version)
        probe.ask("nothing", request("", bytes(16)), version)
        probe.ask("read committed", request("read", topic_id, part(), isolation_level=1), version)
        probe.ask("isolation 2", request("read", topic_id, part(), isolation_level=2), version)
        probe.ask("a partition twice", request("read", topic_id, part(0, 0), part(0, 4)), version)
        probe.ask("negative wait", request("read", topic_id, part(), max_wait_ms=-1), version)
    probe.ask("as a replica", request("read", topic_id, part(), replica_id=2), 12)
    probe.ask("as a debugging consumer", request("read", topic_id, part(), replica_id=-2), 12)
    probe.ask("as a replica", request("read", topic_id, part(), replica_state=ReplicaState(2, 0)), 16)
    for cluster_id in ("another-cluster", ""):
        probe.ask(f"cluster id {cluster_id!r}", request("read", topic_id, part(), cluster_id=cluster_id), 16)


def zstd(probe: Probe) -> None:
    """Fetch from a topic with zstd compression, also at versions older than zstd support."""
    topic_id = create(probe, "zstandard", configs={"compression.type": "zstd"})
    produce(probe, "a batch", "zstandard", batch(b"a" * 100))
    for version in probe.range(ApiKey.FETCH):
        probe.ask("the end", request("zstandard", topic_id, part(offset=1)), version)


def sizes(probe: Probe) -> None:
    """Fetch two partitions with different limits of bytes, for each partition and for the whole response."""
    topic_id = filled(probe, "sized", 3)
    produce(probe, "to partition 1", "sized", batch(b"c" * 100), partition=1)
    for partition_bytes in (0, 1, 300, 600, 700, -1):
        for total in (0, 1, 300, 700, 1 << 20):
            both = (part(0, 0, partition_bytes), part(1, 0, partition_bytes))
            probe.ask(f"{partition_bytes} of {total}", request("sized", topic_id, *both, max_bytes=total), 12)
    probe.ask("negative total", request("sized", topic_id, part(), max_bytes=-1), 12)


def epochs(probe: Probe) -> None:
    """Fetch with old, current and unknown leader epochs, and with diverging last fetched epochs."""
    topic_id = filled(probe, "epochs")
    for version in (9, 12, 13, 16):
        if version not in probe.range(ApiKey.FETCH):
            continue
        for epoch in (-1, 0, 1, 5, -2):
            probe.ask(f"current epoch {epoch}", request("epochs", topic_id, part(current_leader_epoch=epoch)), version)
        if version >= 12:
            for last in (-1, 0, 1, 9):
                for offset in (0, 4, 6, 9):
                    probe.ask(
                        f"last epoch {last} at {offset}", request("epochs", topic_id, part(0, offset, last_fetched_epoch=last)), version
                    )


def below_start(probe: Probe) -> None:
    """Fetch around a log start offset that lies inside a batch."""
    topic_id = filled(probe, "cut")
    probe.ask("cut", DeleteRecordsRequest([DeleteRecordsTopic("cut", [DeleteRecordsPartition(0, 3)])], 5_000))
    for version in (4, 5, 11, 16):
        for offset in (0, 2, 3, 4, 6):
            probe.ask(f"from {offset}", request("cut", topic_id, part(0, offset)), version)


def sessions(probe: Probe) -> None:
    """Use fetch sessions (KIP-227): full and incremental fetches, forgotten topics, wrong epochs, unknown ids, and closing."""
    topic_id = filled(probe, "session", 3)
    for version in (7, 12, 13, 18):
        if version not in probe.range(ApiKey.FETCH):
            continue

        def ask(label: str, *parts: FetchPartition, version: int = version, **fields: Any) -> Any:
            return probe.ask(label, request("session", topic_id, *parts, **fields), version)

        opened = ask("full, with a session", part(0, 6), part(1), session_epoch=0)
        session = opened.session_id
        ask("incremental, nothing new", session_id=session, session_epoch=1)
        produce(probe, "news", "session", batch(b"new"), partition=1)
        ask("incremental, news", session_id=session, session_epoch=2)
        ask("incremental, moved on", part(1, 1), session_id=session, session_epoch=3)
        ask("incremental, one more", part(2), session_id=session, session_epoch=4)
        ask("incremental, out of range", part(2, 99), session_id=session, session_epoch=5)
        ask("incremental, still out of range", session_id=session, session_epoch=6)
        forgotten = [ForgottenTopic("session", topic_id, [2])]
        ask("incremental, forgotten", session_id=session, session_epoch=7, forgotten_topics_data=forgotten)
        ask("wrong epoch", session_id=session, session_epoch=99)
        ask("unknown session", session_id=12345, session_epoch=1)
        ask("unknown session, final", part(0, 6), session_id=12345, session_epoch=-1)
        ask("unknown session, epoch 0", part(0, 6), session_id=12345, session_epoch=0)
        ask("closed", session_id=session, session_epoch=-1)
        ask("after the close", session_id=session, session_epoch=8)
        ask("session of nothing", session_epoch=0)
        ask("unknown partition in a session", part(0, 6), part(9), session_epoch=0)
        ask("no session, epoch 1", part(0, 6), session_epoch=1)
        unknown = request("nowhere", UNKNOWN_ID, part(), session_epoch=0)
        first = probe.ask("unknown topic in a session", unknown, version)
        if first is not None and first.session_id:
            probe.ask("and again", request("", bytes(16), session_id=first.session_id, session_epoch=1), version)


def deleted_topics(probe: Probe) -> None:
    """Delete the topic of a fetch session, and create another one with the same name."""
    for version in (7, 12, 13, 18):
        if version not in probe.range(ApiKey.FETCH):
            continue
        name = f"short-lived-{version}"
        topic_id = create(probe, name, 2)
        opened = probe.ask("full, with a session", request(name, topic_id, part(), part(9), session_epoch=0), version)
        epochs = count(1)

        def ask(label: str, *parts: FetchPartition, version: int = version, session: int = opened.session_id, epochs: Any = epochs) -> None:
            probe.ask(label, request(name, topic_id, *parts, session_id=session, session_epoch=next(epochs)), version)  # noqa: B023 # called at once

        probe.ask("delete", DeleteTopicsRequest([DeleteTopicState(name)], [name], 5_000))
        wait_until_deleted(probe, topic_id)
        ask("deleted")
        ask("deleted, with another partition", part(1))
        create(probe, name)
        ask("created again")
        ask("created again, listed", part(), part(1))
        probe.ask("without a session", request(name, topic_id, part()), version)
