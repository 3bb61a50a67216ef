"""Compare Ottla with Apache Kafka by transaction requests: full life cycles at each version of EndTxn, fencing, rejections, transactional
offsets, and admin requests."""

from __future__ import annotations

from functools import partial
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import batch, create, produce_request, until
from client_compat.differential.scenarios.fetch import part
from client_compat.differential.scenarios.fetch import request as fetch_request
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k27_write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest

CONCURRENT = 51


def init(probe: Probe, label: str, name: str, version: int = 4, **fields: Any) -> tuple[int, int]:
    """Send InitProducerId for the transactional id `name`, once its previous transaction is complete; record the response. Return the
    producer's id and epoch."""
    request = InitProducerIdRequest(name, 60_000, **fields)
    settled(probe, name)
    response = probe.ask(label, request, version)
    return response.producer_id, response.producer_epoch


def settled(probe: Probe, name: str, last: EndTxnRequest | None = None) -> None:
    """Wait until the last transaction of this transactional id has written all its markers. At a release without DescribeTransactions,
    repeat the request `last`, if it is given, until it is no longer answered with CONCURRENT_TRANSACTIONS.
    """
    if not probe.knows(ApiKey.DESCRIBE_TRANSACTIONS):
        for _ in until(f"{name} is settled"):
            if last is None or probe.ask_unrecorded(last, 3).error_code != CONCURRENT:
                return
    for _ in until(f"{name} is settled"):
        (state,) = probe.ask_unrecorded(DescribeTransactionsRequest([name]), 0).transaction_states
        if not state.transaction_state.startswith("Prepare"):
            return


def described(probe: Probe, label: str, *names: str) -> None:
    """Send DescribeTransactions for the transactional ids, if the release supports it, and record the response."""
    if probe.knows(ApiKey.DESCRIBE_TRANSACTIONS):
        probe.ask(label, DescribeTransactionsRequest(list(names)), 0)


def add(name: str, producer: tuple[int, int], topics: list[AddPartitionsToTxnTopic], *, verify: bool = False) -> AddPartitionsToTxnRequest:
    """Return an AddPartitionsToTxn request that adds `topics` to one transaction; it is valid at every version. `name`: the transactional
    id; `producer`: (producer id, epoch); `verify`: only verify that the partitions are in the transaction."""
    one = AddPartitionsToTxnTransaction(name, *producer, verify, topics)
    return AddPartitionsToTxnRequest([one], name, *producer, topics)


def send(probe: Probe, label: str, topic: str, name: str | None, producer: tuple[int, int], *, sequence: int, version: int = 11) -> None:
    """Send a Produce request with a transactional batch of two records; record the response. `name` is the transactional id, `producer` the
    (producer id, epoch)."""
    records = batch(b"a", b"b", producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, transactional=True)
    probe.ask(label, produce_request(probe, topic, bytes(16), records, version, transactional_id=name), version)


def look(probe: Probe, label: str, topic: str) -> None:
    """Record the visible state of the topic's partition 0: its records and end offset at both isolation levels, and its producers."""
    for isolation in (0, 1):
        probe.ask(f"{label}: fetch, isolation {isolation}", fetch_request(topic, bytes(16), part(), isolation_level=isolation), 12)
        ends = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])], 5_000)
        probe.ask(f"{label}: end, isolation {isolation}", ends, 7)
    probe.ask(f"{label}: producers", DescribeProducersRequest([TopicRequest(topic, [0])]), 0)


def lives(probe: Probe) -> None:
    """Run committed, aborted and empty transactions at each version of EndTxn, and repeat each step."""
    for version in probe.range(ApiKey.END_TXN):
        topic, name = f"txn-{version}", f"life-{version}"
        create(probe, topic, 2)
        produce_version = 12 if version >= 5 else 11
        producer = init(probe, "init", name)
        for committed in (True, False):
            if version < 5:
                probe.ask("add", add(name, producer, [AddPartitionsToTxnTopic(topic, [0])]), min(version, 3))
                probe.ask("add again", add(name, producer, [AddPartitionsToTxnTopic(topic, [0])]), min(version, 3))
            send(probe, "write", topic, name, producer, sequence=0 if committed or version >= 5 else 2, version=produce_version)
            look(probe, f"open ({committed})", topic)
            described(probe, "described", name)
            probe.ask("other outcome's epoch", EndTxnRequest(name, producer[0], producer[1] + 5, committed), version)
            ended = probe.ask("end", EndTxnRequest(name, *producer, committed), version)
            settled(probe, name, EndTxnRequest(name, *producer, committed))
            probe.ask("end again", EndTxnRequest(name, *producer, committed), version)
            probe.ask("end otherwise", EndTxnRequest(name, *producer, not committed), version)
            look(probe, f"ended ({committed})", topic)
            if version >= 5:
                producer = (ended.producer_id, ended.producer_epoch)
        settled(probe, name, EndTxnRequest(name, *producer, False))
        probe.ask("end of nothing", EndTxnRequest(name, *producer, True), version)
        settled(probe, name, EndTxnRequest(name, *producer, True))
        described(probe, "described at the end", name)


def refused(probe: Probe) -> None:
    """Send transaction requests with wrong producer ids, epochs, transactional ids, topics and timeouts."""
    create(probe, "refuse")
    producer = init(probe, "init", "refuse")
    stranger = (producer[0] + 900, 0)
    probe.names.number("producer_id", stranger[0])
    for version in probe.range(ApiKey.INIT_PRODUCER_ID):
        for timeout in (0, -1, 10_000_000):
            probe.ask(f"init, timeout {timeout}", InitProducerIdRequest("refuse-2", timeout), version)
    for version in (3, 4, 5):
        probe.ask("init, unknown id", InitProducerIdRequest("refuse", 60_000, *stranger), version)
        probe.ask("init, later epoch", InitProducerIdRequest("refuse", 60_000, producer[0], 30), version)
        probe.ask("init, unknown name with an id", InitProducerIdRequest("never-seen", 60_000, *stranger), version)
    here = [AddPartitionsToTxnTopic("refuse", [0])]
    for version in probe.range(ApiKey.ADD_PARTITIONS_TO_TXN):
        if version > 3:
            continue
        for label, request in {
            "another id": add("refuse", stranger, here),
            "an old epoch": add("refuse", (producer[0], 99), here),
            "unknown name": add("no-such-name", producer, here),
            "empty name": add("", producer, here),
            "unknown topic": add("refuse", producer, [AddPartitionsToTxnTopic("nowhere", [0]), *here]),
            "unknown partition": add("refuse", producer, [AddPartitionsToTxnTopic("refuse", [7])]),
        }.items():
            probe.ask(f"add: {label}", request, version)
    for version in probe.range(ApiKey.END_TXN):
        for label, who, name in (
            ("another id", stranger, "refuse"),
            ("a later epoch", (producer[0], 99), "refuse"),
            ("unknown name", producer, "no-such-name"),
            ("empty name", producer, ""),
        ):
            probe.ask(f"end: {label}", EndTxnRequest(name, *who, True), version)
    for version in (3, 7, 9, 11):
        send(probe, "write what was never added", "refuse", "refuse", producer, sequence=0, version=version)
        send(probe, "write without a name", "refuse", None, producer, sequence=0, version=version)
    described(probe, "described", "refuse", "no-such-name", "")


def fenced(probe: Probe) -> None:
    """Let a second producer with the same transactional id fence the first and abort its open transaction."""
    create(probe, "fenced")
    first = init(probe, "first", "fence")
    probe.ask("add", add("fence", first, [AddPartitionsToTxnTopic("fenced", [0])]), 3)
    send(probe, "write", "fenced", "fence", first, sequence=0)
    for _ in until("the second instance is let in"):
        answer = probe.ask_unrecorded(InitProducerIdRequest("fence", 60_000), 4)
        if answer.error_code != CONCURRENT:
            break
    second = (answer.producer_id, answer.producer_epoch)
    look(probe, "aborted by the second", "fenced")
    for version in (3, 7, 9, 11):
        send(probe, "write of the first", "fenced", "fence", first, sequence=2, version=version)
    for version in probe.range(ApiKey.END_TXN):
        probe.ask("end of the first", EndTxnRequest("fence", *first, True), version)
    for version in (0, 1, 2, 3):
        probe.ask("add of the first", add("fence", first, [AddPartitionsToTxnTopic("fenced", [0])]), version)
    for version in (0, 3):
        probe.ask("offsets of the first", AddOffsetsToTxnRequest("fence", *first, "fence-group"), version)
    probe.ask("add of the second", add("fence", second, [AddPartitionsToTxnTopic("fenced", [0])]), 3)
    send(probe, "write of the second", "fenced", "fence", second, sequence=0)
    probe.ask("end of the second", EndTxnRequest("fence", *second, True), 3)
    settled(probe, "fence", EndTxnRequest("fence", *second, True))
    look(probe, "committed by the second", "fenced")
    probe.ask("add of the second, again", add("fence", second, [AddPartitionsToTxnTopic("fenced", [0])]), 3)
    probe.ask("init of the first, whose producer id is the second's", InitProducerIdRequest("fence", 60_000, *first), 4)
    settled(probe, "fence")
    probe.ask("end of the second, whose transaction the first has aborted", EndTxnRequest("fence", *second, True), 3)


def offsets(probe: Probe) -> None:
    """Send TxnOffsetCommit requests, and fetch the offsets while they are pending, after a commit, and after an abort. Some requests are
    rejected."""
    topic_id = create(probe, "txn-in", 1)
    groups = [OffsetFetchRequestGroup("txn-group", topics=[OffsetFetchRequestTopics("txn-in", partition_indexes=[0])])]
    committed_offsets = partial(OffsetFetchRequest, "txn-group", [OffsetFetchRequestTopic("txn-in", [0])], groups)

    def commit(name: str, who: tuple[int, int], offset: int, group: str = "txn-group", **fields: Any) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequestPartition(fields.pop("partition", 0), offset, 0, "note")
        topic = TxnOffsetCommitRequestTopic(fields.pop("topic", "txn-in"), fields.pop("topic_id", topic_id), [partition])
        return TxnOffsetCommitRequest(name, group, *who, topics=[topic], **fields)

    for version in probe.range(ApiKey.TXN_OFFSET_COMMIT):
        if version == 5:  # adds the offsets by itself, which is for producers of transaction version 2
            continue
        name = f"offsets-{version}"
        producer = init(probe, "init", name)
        for committed in (True, False):
            probe.ask("add offsets", AddOffsetsToTxnRequest(name, *producer, "txn-group"), min(version, 3))
            for label, request in {
                "commit": commit(name, producer, 10 * version + committed),
                "of an old epoch": commit(name, (producer[0], 99), 5),
                "negative": commit(name, producer, -1),
                "unknown topic": commit(name, producer, 5, topic="nowhere", topic_id=b"nowhere.nowhere."),
                "unknown partition": commit(name, producer, 5, partition=9),
                "no group": commit(name, producer, 5, group=""),
            }.items():
                if probe.older and label == "of an old epoch":
                    continue  # releases before 4.0 accept a later epoch in an open transaction, and then reject the right one
                probe.ask(label, request, version)
            if version >= 3:
                probe.ask("of a stranger", commit(name, producer, 5, generation_id_or_member_epoch=3, member_id="stranger"), version)
                probe.ask("of a generation", commit(name, producer, 5, generation_id_or_member_epoch=3), version)
            for stable in (False, True):
                probe.ask(f"fetch, stable {stable}", committed_offsets(stable), 8)
            probe.ask("end", EndTxnRequest(name, *producer, committed), 3)
            settled(probe, name, EndTxnRequest(name, *producer, committed))
            _wait_until_stable(probe, committed_offsets(True))
            for stable in (False, True):
                probe.ask(f"fetch after the end, stable {stable}", committed_offsets(stable), 8)


def _wait_until_stable(probe: Probe, request: OffsetFetchRequest) -> None:
    """Repeat `request`, which requires stable offsets, until no offset is pending. Coordinators before 4.0 apply the offsets of a
    transaction some time after its marker."""
    for _ in until("no offset is pending"):
        answer = probe.ask_unrecorded(request, 8)
        codes = {partition.error_code for topic in (*answer.groups, answer)[0].topics for partition in topic.partitions}
        if ErrorCode.UNSTABLE_OFFSET_COMMIT not in codes:
            return


def listing(probe: Probe) -> None:
    """Send ListTransactions with each filter, and DescribeTransactions."""
    create(probe, "listed")
    for name in ("list-a", "list-b"):
        producer = init(probe, "init", name)
    probe.ask("add", add("list-b", producer, [AddPartitionsToTxnTopic("listed", [0])]), 3)
    for version in probe.range(ApiKey.LIST_TRANSACTIONS):
        for states in ([], ["Ongoing"], ["Empty"], ["Nonsense"], ["Empty", "Nonsense"], ["ongoing"]):
            answer = probe.ask(f"list {states}", ListTransactionsRequest(states), version)
            only_listed(probe, answer)
        only_listed(probe, probe.ask("by producer", ListTransactionsRequest([], [producer[0]]), version))
        if version >= 1:
            only_listed(probe, probe.ask("longer than an hour", ListTransactionsRequest([], [], 3_600_000), version))
        if version >= 2:
            for pattern in ("list-.*", "list-a", "nothing", "", "(", None):
                pattern_request = ListTransactionsRequest([], [], -1, pattern)
                only_listed(probe, probe.ask(f"pattern {pattern!r}", pattern_request, version))
    described(probe, "described", "list-a", "list-b")
    probe.ask("end", EndTxnRequest("list-b", *producer, False), 3)


def markers(probe: Probe) -> None:
    """Send WriteTxnMarkers as an operator's tool does, with old, equal and later epochs, at each transaction version."""
    create(probe, "marked")
    for version in probe.range(ApiKey.WRITE_TXN_MARKERS):
        for level in (0, 1, 2) if version >= 2 else (0,):
            name = f"marked-{version}-{level}"
            producer = init(probe, "init", name)
            probe.ask("add", add(name, producer, [AddPartitionsToTxnTopic("marked", [0])]), 3)
            send(probe, "write", "marked", name, producer, sequence=0)

            def mark(label: str, more: int, topic: str = "marked", index: int = 0, **fields: Any) -> None:
                epoch = producer[1] + more  # noqa: B023 # called only within this iteration
                topics = [WritableTxnMarkerTopic(topic, [index])]
                one = WritableTxnMarker(producer[0], epoch, False, topics, 0, level, **fields)  # noqa: B023 # called at once
                probe.ask(f"{label}, of version {level}", WriteTxnMarkersRequest([one]), version)  # noqa: B023 # called at once

            mark("nowhere", 0, "nowhere")
            mark("no such partition", 0, index=9)
            mark("of its epoch", 0)
            mark("again", 0)
            mark("of the next epoch", 1)
            mark("of an epoch before", 0)
            look(probe, f"marked, of version {level}", "marked")
    probe.ask("none", WriteTxnMarkersRequest([]))


def only_listed(probe: Probe, answer: Any) -> None:
    """Remove the transactions of other scenarios from the last recorded response, which is one to ListTransactions. Do nothing if `answer`,
    the decoded response, is None."""
    if answer is not None:
        shown = probe.seen[-1].response
        shown["transaction_states"] = [state for state in shown["transaction_states"] if state["transactional_id"].startswith("list-")]
