"""Compare Ottla with Apache Kafka by requests about records and transactions that no client sends: repeated and empty topics, errors of
several kinds in one request, transactions that begin and end at different versions."""

from __future__ import annotations

from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import TIME, UNKNOWN_ID, batch, create, produce
from client_compat.differential.scenarios.fetch import part
from client_compat.differential.scenarios.fetch import request as fetch_request
from client_compat.differential.scenarios.transactions import add, described, init, look, only_listed, send, settled
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchTopic, ForgottenTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest


def repeated_and_empty(probe: Probe) -> None:
    """Name topics and partitions twice, and topics without partitions, in each request whose response Kafka builds from a map."""
    topic_id = create(probe, "repeat", 3)
    for n in range(4):
        produce(probe, f"batch {n}", "repeat", batch(b"a", b"b", at=n * 10))
    entries: dict[str, list[tuple[str, list[int]]]] = {
        "no partitions": [("repeat", [])],
        "unknown, no partitions": [("nowhere", [])],
        "some without": [("nowhere", []), ("repeat", [0, 1])],
        "topic twice": [("repeat", [0]), ("repeat", [1])],
        "a partition twice": [("repeat", [0, 1, 0]), ("repeat", [0])],
    }
    for label, named in entries.items():
        for version in probe.range(ApiKey.LIST_OFFSETS):
            listed = [ListOffsetsTopic(name, [ListOffsetsPartition(each, -1, TIME) for each in indexes]) for name, indexes in named]
            probe.ask(label, ListOffsetsRequest(-1, 0, listed, 5_000), version)
        for version in (3, 9, 13):
            topics = [
                TopicProduceData(
                    name,
                    topic_id if name == "repeat" else UNKNOWN_ID,
                    [PartitionProduceData(each, batch(b"x")) for each in indexes],
                )
                for name, indexes in named
            ]
            probe.ask(label, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), version)
        added = [AddPartitionsToTxnTopic(*each) for each in named]
        for version in probe.range(ApiKey.ADD_PARTITIONS_TO_TXN):
            name = f"repeat-{version}"
            producer = init(probe, "init", name)
            for verify in (False, True) if version >= 4 else (False,):
                probe.ask(f"{label}, verify {verify}", add(name, producer, added, verify=verify), version)
            described(probe, f"{label}: described", name)
            probe.ask("end", EndTxnRequest(name, *producer, True), 3)
    cuts: dict[str, list[tuple[str, list[tuple[int, int]]]]] = {
        "no partitions": [("repeat", [])],
        "unknown, no partitions": [("nowhere", [])],
        "topic twice": [("repeat", [(0, 1)]), ("repeat", [(1, 0)])],
        "partition twice": [("repeat", [(0, 4), (1, 0), (0, 2)]), ("repeat", [(0, 3)])],
        "partition twice, the last out of range": [("repeat", [(0, 4), (0, 99)])],
    }
    for label, cut in cuts.items():
        deleted = [DeleteRecordsTopic(name, [DeleteRecordsPartition(*each) for each in places]) for name, places in cut]
        for version in probe.range(ApiKey.DELETE_RECORDS):
            probe.ask(label, DeleteRecordsRequest(deleted, 1_000), version)
    probe.ask("read", fetch_request("repeat", topic_id, part(0, 3)), 12)


def offsets_of_no_partitions(probe: Probe) -> None:
    """Send TxnOffsetCommit requests with topics without partitions, at each version."""
    topic_id = create(probe, "no-offsets")
    known, unknown = ("no-offsets", topic_id), ("nowhere", UNKNOWN_ID)
    offset = TxnOffsetCommitRequestPartition(0, 1, 0, "")
    for version in probe.range(ApiKey.TXN_OFFSET_COMMIT):
        name = f"no-offsets-{version}"
        producer = init(probe, "init", name)
        for label, named in {"known": [known], "unknown": [unknown], "both": [known, unknown]}.items():
            if probe.older and unknown in named:
                continue  # releases before 4.0 leave out unknown topics without partitions, too
            for group in ("no-offsets", ""):
                topics = [TxnOffsetCommitRequestTopic(*each, []) for each in named]
                probe.ask(f"{label}, group {group!r}", TxnOffsetCommitRequest(name, group, *producer, topics=topics), version)
                topics.append(TxnOffsetCommitRequestTopic(*known, [offset]))
                probe.ask(f"{label} and one, group {group!r}", TxnOffsetCommitRequest(name, group, *producer, topics=topics), version)
        described(probe, "described", name)


def several_errors(probe: Probe) -> None:
    """Produce with errors of the request and of single partitions, and list transactions by repeated states."""
    topic_id = create(probe, "several", 4)

    def of(who: int) -> bytes:
        return batch(b"x", producer_id=who, producer_epoch=0, base_sequence=0, transactional=True)

    plain = [("nowhere", 0, batch(b"x")), ("several", 0, batch(b"x")), ("several", 1, b""), ("several", 9, batch(b"x"))]
    transactional = [("nowhere", 0, of(5)), ("several", 0, of(6)), ("several", 1, batch(b"x")), ("several", 9, of(7))]
    for version in probe.range(ApiKey.PRODUCE):
        if version < 3:
            continue

        def ask(label: str, data: list[tuple[str, int, bytes]], version: int = version, **fields: Any) -> None:
            topics = [
                TopicProduceData(name, topic_id if name == "several" else UNKNOWN_ID, [PartitionProduceData(index, records)])
                for name, index, records in data
            ]
            probe.ask(label, ProduceRequest(**{"acks": -1, "timeout_ms": 5_000, "topic_data": topics, **fields}), version)

        ask("wrong acks", plain, acks=5)
        if not probe.older:  # older releases verify fewer transactional writes
            ask("producers of unknown partitions", transactional, transactional_id="several")
            ask("two producers", [*transactional, ("several", 2, of(8))], transactional_id="several")
        ask("no time", plain, timeout_ms=0)
    for version in probe.range(ApiKey.LIST_TRANSACTIONS):
        only_listed(probe, probe.ask("states twice", ListTransactionsRequest(["x", "y", "x", "Dead", "Dead"]), version))


def unread_partitions(probe: Probe) -> None:
    """Fetch known and unknown partitions in one request, with and without a session. The order of the responses counts."""
    topic_id = create(probe, "unread", 3)
    produce(probe, "records", "unread", batch(b"a" * 100, b"b" * 100), partition=1)
    for version in (7, 12, 13, 18):
        if version not in probe.range(ApiKey.FETCH):
            continue

        def ask(label: str, *named: tuple[bytes, list[FetchPartition]], version: int = version, **fields: Any) -> Any:
            made = fetch_request("unread", topic_id, **fields)
            made.topics = [FetchTopic("unread" if each == topic_id else "nowhere", each, parts) for each, parts in named]
            return probe.ask(label, made, version, sort=False)

        mixed = (UNKNOWN_ID, [part()]), (topic_id, [part(9), part(1)]), (topic_id, [part(0, 99), part(-1)])
        ask("mixed", *mixed)
        ask("the other way round", *reversed(mixed))
        session = ask("in a session", *mixed, session_epoch=0).session_id
        ask("again", session_id=session, session_epoch=1)
        ask("one is mended", (topic_id, [part(0), part(1, 2)]), session_id=session, session_epoch=2)
        ask("another one", (topic_id, [part(2), part(7)]), session_id=session, session_epoch=3)
        forgotten = [ForgottenTopic("unread", topic_id, [9, 9, 5]), ForgottenTopic("nowhere", UNKNOWN_ID, [0, 1])]
        ask("forgotten", (topic_id, [part(9)]), session_id=session, session_epoch=4, forgotten_topics_data=forgotten)
        ask("the rest", session_id=session, session_epoch=5)


def mixed_versions(probe: Probe) -> None:
    """Begin and end the transactions of one producer at different versions of Produce and EndTxn, and write after the end."""
    if probe.older:
        return  # some older releases lack transaction version 2
    create(probe, "mixed", 2)
    producer = init(probe, "init", "mixed")
    for index, (write_version, end_version) in enumerate(((11, 5), (12, 3), (12, 5), (11, 4), (11, 5), (12, 5))):
        if write_version < 12:
            probe.ask("add", add("mixed", producer, [AddPartitionsToTxnTopic("mixed", [0])]), 3)
        for sequence in (0, 2):
            send(probe, f"write {sequence}", "mixed", "mixed", producer, sequence=sequence, version=write_version)
        look(probe, f"open {index}", "mixed")
        ended = probe.ask("end", EndTxnRequest("mixed", *producer, bool(index % 2)), end_version)
        settled(probe, "mixed")
        look(probe, f"ended {index}", "mixed")
        described(probe, "described", "mixed")
        if end_version >= 5:
            producer = (ended.producer_id, ended.producer_epoch)
            continue
        send(probe, "write with a used sequence", "mixed", "mixed", producer, sequence=2, version=12)
        described(probe, "described after the write", "mixed")
        again = init(probe, "init", "mixed", producer_id=producer[0], producer_epoch=producer[1])
        if again[0] == -1:  # the write began a transaction, which is aborted now
            again = init(probe, "init again", "mixed", producer_id=producer[0], producer_epoch=producer[1])
        producer = again
