"""Compare Ottla with Apache Kafka by ShareFetch and ShareAcknowledge requests (KIP-932): share sessions, acquired ranges, acknowledgements,
delivery counts and start offsets."""

from __future__ import annotations

from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, batch, create, produce
from client_compat.differential.scenarios.share_members import (
    ACCEPT,
    CLOSE,
    GAP,
    OPEN,
    REJECT,
    RELEASE,
    RENEW,
    SLOW,
    ShareMember,
    configure,
    initialize,
    load,
    share_topic,
)
from client_compat.differential.scenarios.transactions import add, init, send, settled
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.share_partitions import SharePartition, ShareTopic


def filled(probe: Probe, topic: str, *batches: int, partition: int = 0) -> None:
    """Append one batch to a partition for each number in `batches`, which is the batch's number of records."""
    at = 0
    for count in batches:
        values = [b"%s-%d" % (topic.encode(), at + number) for number in range(count)]
        produce(probe, f"{count} records", topic, batch(*values, at=at), partition=partition)
        at += count


def sessions(probe: Probe) -> None:
    """Open, use, change and close share sessions, with right and wrong epochs."""
    topic_id = share_topic(probe, "ss", "ss", 2)
    for version in probe.range(ApiKey.SHARE_FETCH):
        member = ShareMember(probe, "ss", f"m{version}", topic_id, version=version)
        member.fetch("no session", share_session_epoch=1)
        member.fetch("closes no session", share_session_epoch=CLOSE)
        member.fetch("an epoch below all", share_session_epoch=-2)
        member.acknowledge("no session", share_session_epoch=1)
        member.acknowledge("closes no session", share_session_epoch=CLOSE)
        member.acknowledge("epoch 0", share_session_epoch=OPEN)
        member.fetch("opens with acknowledgements", (0, 0, [ACCEPT]))
        member.fetch("opens without partitions", topics=[])
        member.fetch("no news in it")
        member.fetch("opens again", share_session_epoch=OPEN)
        member.fetch("opens it with a partition", share_session_epoch=OPEN, topics=[ShareTopic(topic_id, [SharePartition(0)])])
        member.fetch("no news")
        member.fetch("its epoch again", share_session_epoch=member.epoch - 1)
        member.fetch("a later epoch", share_session_epoch=member.epoch + 1)
        member.acknowledge("its epoch again", share_session_epoch=member.epoch - 1)
        member.acknowledge("a later epoch", share_session_epoch=member.epoch + 1)
        member.acknowledge("acknowledges nothing")
        member.fetch("adds a partition", topics=[ShareTopic(topic_id, [SharePartition(1)])])
        member.fetch("adds a partition that is not there", topics=[ShareTopic(topic_id, [SharePartition(7)])])
        member.fetch("what is not there stays")
        member.forget("forgets a partition", 1)
        member.forget("forgets what it does not have", 5)
        member.fetch("closes with a partition", share_session_epoch=CLOSE, topics=[ShareTopic(topic_id, [SharePartition(0)])])
        member.fetch("after the end", share_session_epoch=3)
        member.fetch("opens once more")
        member.acknowledge("closes by an acknowledgement", share_session_epoch=CLOSE)
        member.fetch("after that end", share_session_epoch=1)


def refused(probe: Probe) -> None:
    """Send ShareFetch and ShareAcknowledge requests that are rejected: without a group or a member id, or with invalid values."""
    topic_id = share_topic(probe, "sr", "sr")
    filled(probe, "sr", 3)
    for version in probe.range(ApiKey.SHARE_FETCH):
        member = ShareMember(probe, "sr", "m", topic_id, version=version)
        for label, fields in _NAMELESS.items():
            member.fetch(label, **fields)
            member.acknowledge(label, **fields)
        member.fetch("unknown topic", topics=[ShareTopic(UNKNOWN_ID, [SharePartition(0)])])
        member.close()
        member.fetch("unknown partition", topics=[ShareTopic(topic_id, [SharePartition(9), SharePartition(-1)])])
        member.close()
        member.fetch("a partition twice", topics=[ShareTopic(topic_id, [SharePartition(0), SharePartition(0)])])
        member.close()
        for label, fields in _IMPOSSIBLE.items():
            member.fetch(label, **fields)
            member.close()


_NAMELESS: dict[str, dict[str, Any]] = {
    "no group": {"group_id": None},
    "a group without a name": {"group_id": ""},
    "no member": {"member_id": None},
    "a member without a name": {"member_id": ""},
    "a long member": {"member_id": "m" * 37},
}
_IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "no bytes": {"max_bytes": 0},
    "negative bytes": {"max_bytes": -1},
    "negative minimum": {"min_bytes": -1},
    "no records": {"max_records": 0},
    "negative records": {"max_records": -1},
    "no batch size": {"batch_size": 0},
    "negative batch size": {"batch_size": -1},
    "negative wait": {"max_wait_ms": -1},
}


def modes(probe: Probe) -> None:
    """Send ShareFetch with different limits for records and batch sizes, in each acquire mode (KIP-1206)."""
    topic_id = create(probe, "sm")
    variants = [
        (version, mode, *sizes)
        for version in probe.range(ApiKey.SHARE_FETCH)
        for mode in ((0, 1, 2, -1) if version >= 2 else (0,))
        for sizes in ((1, 1), (3, 500), (6, 2), (7, 7), (500, 4))
    ]
    for version, mode, max_records, _ in variants:
        initialize(probe, f"sm-{version}-{mode}-{max_records}", topic_id, [0])
        load(probe, f"sm-{version}-{mode}-{max_records}", topic_id, [0])
    filled(probe, "sm", 5, 1, 10, 3)
    for version, mode, max_records, batch_size in variants:
        member = ShareMember(probe, f"sm-{version}-{mode}-{max_records}", "m", topic_id, version=version)
        fields: dict[str, Any] = {"max_records": max_records, "batch_size": batch_size, "share_acquire_mode": mode}
        member.fetch(f"mode {mode}, {max_records} records in batches of {batch_size}", **fields)
        member.fetch("as many again", **fields)
        member.close()


def members(probe: Probe) -> None:
    """Let two members share a partition: each record belongs to one of them."""
    topic_id = share_topic(probe, "sb", "sb")
    a, b = (ShareMember(probe, "sb", name, topic_id) for name in "ab")
    a.fetch("nothing there")
    b.fetch("nothing there")
    filled(probe, "sb", 4, 4)
    a.fetch("the first batch", max_records=2, **SLOW)
    b.fetch("the second batch", **SLOW)
    b.fetch("nothing left")
    b.acknowledge("another's records", (0, 3, [ACCEPT]))
    b.acknowledge("own and another's records", (0, 7, [ACCEPT]))
    b.acknowledge("its own", (4, 5, [ACCEPT]), (6, 7, [RELEASE]))
    a.fetch("what was released", **SLOW)
    a.acknowledge("some", (1, 2, [ACCEPT]))
    a.acknowledge("the same again", (1, 2, [ACCEPT]))
    a.acknowledge("what is left, and more", (0, 3, [ACCEPT]))
    a.acknowledge("parts", (0, 0, [REJECT]), (3, 3, [RELEASE]))
    b.fetch("what the other released", **SLOW)
    a.close()
    b.fetch("after the other has left", **SLOW)
    b.acknowledge("all", (3, 3, [ACCEPT]), (6, 7, [ACCEPT]))
    b.close()


def acknowledgements(probe: Probe) -> None:
    """Acknowledge with each acknowledgement type, for single offsets and ranges, valid and invalid, in ShareFetch as well as in
    ShareAcknowledge requests."""
    for version in probe.range(ApiKey.SHARE_ACKNOWLEDGE):
        for by_fetch in (False, True):
            name = f"sa{version}{'f' if by_fetch else 'a'}"
            topic_id = share_topic(probe, name, name)
            filled(probe, name, 10, 10, 1, 9)
            member = ShareMember(probe, name, "m", topic_id, version=version)
            member.fetch("all", **SLOW)
            for label, given in _ACKNOWLEDGED.items():
                if by_fetch:
                    member.fetch(label, *given, **(SLOW if label in _RELEASED else {}))
                else:
                    member.acknowledge(label, *given)
            member.fetch("what was released", **({} if by_fetch else SLOW))
            member.fetch("a partition that is not in the session", (0, 0, [ACCEPT]), partition=3)
            member.close()


_ACKNOWLEDGED: dict[str, list[Any]] = {
    "a batch": [(0, 9, [ACCEPT])],
    "a batch that was acknowledged": [(0, 9, [ACCEPT])],
    "one record": [(10, 10, [ACCEPT])],
    "records of each type": [(11, 14, [ACCEPT, RELEASE, REJECT, GAP])],
    "too few types": [(15, 18, [ACCEPT, ACCEPT])],
    "too many types": [(15, 16, [ACCEPT, ACCEPT, ACCEPT])],
    "no types": [(15, 16, [])],
    "a type that there is not": [(15, 15, [5])],
    "a negative type": [(15, 15, [-1])],
    "a type that renews": [(15, 15, [RENEW])],
    "a range backwards": [(16, 15, [ACCEPT])],
    "ranges backwards": [(17, 17, [ACCEPT]), (15, 15, [ACCEPT])],
    "overlapping ranges": [(15, 16, [ACCEPT]), (16, 17, [ACCEPT])],
    "a record twice": [(15, 15, [ACCEPT]), (15, 15, [ACCEPT])],
    "negative offsets": [(-2, -1, [ACCEPT])],
    "records beyond the end": [(100, 101, [ACCEPT])],
    "records over the end": [(29, 30, [ACCEPT])],
    "released as a range": [(15, 17, [RELEASE])],
    "over two batches": [(18, 20, [RELEASE])],
    "a gap as a range": [(21, 22, [GAP])],
    "one released, one that was acknowledged": [(23, 23, [RELEASE]), (0, 0, [ACCEPT])],
    "several ranges": [(23, 23, [RELEASE]), (25, 26, [ACCEPT]), (28, 28, [REJECT])],
}
_RELEASED = {"records of each type", "released as a range", "over two batches", "several ranges"}
"""The labels of requests that release records. Apache Kafka persists a release before a fetch of the same request can acquire the records
again, so these fetches must wait for records."""


def renewals(probe: Probe) -> None:
    """Renew acquisition locks (KIP-1222) with ShareFetch and with ShareAcknowledge, also in a ShareFetch that would return records."""
    topic_id = share_topic(probe, "sn", "sn")
    filled(probe, "sn", 6)
    member = ShareMember(probe, "sn", "m", topic_id)
    member.fetch("all", **SLOW)
    nothing: dict[str, Any] = {"is_renew_ack": True, "max_bytes": 0, "max_records": 0}
    member.acknowledge("without saying so", (0, 5, [RENEW]))
    member.acknowledge("all", (0, 5, [RENEW]), is_renew_ack=True)
    member.acknowledge("some, and others accepted", (0, 2, [RENEW, ACCEPT, RENEW]), is_renew_ack=True)
    member.acknowledge("what was accepted", (1, 1, [RENEW]), is_renew_ack=True)
    member.fetch("in a fetch", (0, 0, [RENEW]), **nothing)
    member.fetch("in a fetch of records", (0, 0, [RENEW]), is_renew_ack=True)
    member.fetch("in a fetch that waits", (0, 0, [RENEW]), **{**nothing, "max_wait_ms": 10})
    member.fetch("no acknowledgement", **nothing)
    member.close()


def deliveries(probe: Probe) -> None:
    """Release records until they reach the delivery count limit and are no longer delivered."""
    topic_id = share_topic(probe, "sd", "sd", settings={"share.delivery.count.limit": "4"})
    filled(probe, "sd", 8, 1)
    member = ShareMember(probe, "sd", "m", topic_id)
    for turn in range(12):
        answer = member.fetch(f"turn {turn}")
        found = [each for topic in answer.responses for part in topic.partitions for each in part.acquired_records] if answer else []
        if not found and turn > 0:
            break
        member.acknowledge("releases", *((each.first_offset, each.last_offset, [RELEASE]) for each in found))
    member.close()


def closing(probe: Probe) -> None:
    """Close share sessions with records in flight: by the final session epoch (-1) in ShareAcknowledge and ShareFetch, and by opening
    another session of the same member."""
    topic_id = share_topic(probe, "sc", "sc")
    filled(probe, "sc", 6)
    a, b = (ShareMember(probe, "sc", name, topic_id) for name in "ab")
    a.fetch("all", **SLOW)
    a.acknowledge("the first at the end", (0, 0, [ACCEPT]), share_session_epoch=CLOSE)
    b.fetch("the others", **SLOW)
    b.fetch("accepts one at the end", (1, 1, [ACCEPT]), share_session_epoch=CLOSE)
    a.fetch("the others", **SLOW)
    a.fetch(
        "another session of the same member", share_session_epoch=OPEN, topics=a.topics() or [ShareTopic(topic_id, [SharePartition(0)])]
    )
    a.acknowledge("with records of the session before", (2, 5, [ACCEPT]))
    a.close()


def limits(probe: Probe) -> None:
    """Acquire records up to the limit of record locks of a share partition, and up to the byte limit of a ShareFetch request."""
    topic_id = share_topic(probe, "sl", "sl", settings={"share.partition.max.record.locks": "100"})
    filled(probe, "sl", *[9] * 14)
    member = ShareMember(probe, "sl", "m", topic_id)
    member.fetch("as many as possible", **SLOW)
    member.fetch("no more")
    member.acknowledge("a batch in the middle", (18, 26, [ACCEPT]))
    member.fetch("no more after a gap")
    member.acknowledge("the first", (0, 17, [ACCEPT]))
    member.fetch("room again", **SLOW)
    member.close()
    small = ShareMember(probe, "sl", "small", topic_id)
    small.fetch("few bytes", max_bytes=200, **SLOW)
    small.fetch("hardly any byte", max_bytes=1)
    small.close()


def beginnings(probe: Probe) -> None:
    """Consume with new share groups, one for each value of share.auto.offset.reset, and with a group whose next records were deleted."""
    for reset in ("earliest", "latest", "by_duration:PT1H"):
        name = f"so-{reset.partition(':')[0]}"
        topic_id = _uninitialized(probe, name, reset)
        member = ShareMember(probe, name, "m", topic_id)
        for turn in range(2):
            member.fetch(f"turn {turn}", max_wait_ms=300, min_bytes=1)
        filled(probe, name, 2)
        member.fetch("later records", **SLOW)
        member.close()
    topic_id = share_topic(probe, "so-cut", "so-cut")
    filled(probe, "so-cut", 4, 4, 4)
    member = ShareMember(probe, "so-cut", "m", topic_id)
    member.fetch("the first batch", max_records=1, **SLOW)
    partition = DeleteRecordsPartition(0, 6)
    probe.ask("deleted records", DeleteRecordsRequest([DeleteRecordsTopic("so-cut", [partition])], 5_000))
    member.fetch("after the deletion", **SLOW)
    member.acknowledge("a deleted record", (0, 3, [ACCEPT]))
    member.acknowledge("over the log's start", (4, 7, [ACCEPT]))
    member.acknowledge("what is there", (6, 7, [ACCEPT]))
    member.close()


def _uninitialized(probe: Probe, name: str, reset: str) -> bytes:
    configure(probe, name, {"share.auto.offset.reset": reset})
    topic_id = create(probe, name)
    filled(probe, name, 3)
    initialize(probe, name, topic_id, [0], -1)
    return topic_id


def transactions(probe: Probe) -> None:
    """Deliver records of committed, aborted and open transactions, at both isolation levels."""
    for level in ("read_uncommitted", "read_committed"):
        name = f"st-{level}"
        topic_id = share_topic(probe, name, name, settings={"share.isolation.level": level})
        producer = init(probe, "init", name)
        for turn, committed in enumerate((True, False, True)):
            probe.ask("add", add(name, producer, [AddPartitionsToTxnTopic(name, [0])]), 3)
            for each in range(2):
                send(probe, "write", name, name, producer, sequence=4 * turn + 2 * each)
            probe.ask("end", EndTxnRequest(name, *producer, committed), 3)
            settled(probe, name)
        probe.ask("add", add(name, producer, [AddPartitionsToTxnTopic(name, [0])]), 3)
        send(probe, "write", name, name, producer, sequence=12)
        member = ShareMember(probe, name, "m", topic_id)
        member.fetch("all", **SLOW)
        member.fetch("the rest")
        member.acknowledge("accepts a transaction", (0, 3, [ACCEPT]))
        member.acknowledge("a marker", (4, 4, [GAP]))
        member.acknowledge("an aborted record", (5, 5, [ACCEPT]))
        member.close()
