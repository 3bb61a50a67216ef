"""`ottla transactions`: lists, describes, finds hanging and aborts transactions of any Kafka cluster (KIP-664).

A transaction hangs if it is open in a partition, but its coordinator does not know it: no marker will ever end it, and read_committed
consumers cannot read past its first record. `find-hanging` compares the open transactions of the partitions' leaders with the coordinators'
state; `abort` writes the missing marker.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ottla.broker.cli.cluster import TRANSACTION, AdminClient, TopicPartition, check
from ottla.broker.cli.common import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CliError,
    Yes,
    command,
    judging,
    note,
    print_json,
    print_rows,
    print_table,
    say,
)
from ottla.protocol.messages.k27_write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest, TransactionState
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest

app = typer.Typer(help="List, describe, find hanging and abort transactions of any Kafka cluster.", no_args_is_help=True)

NO_OFFSET = -1
NO_TIME = -1
DURATION_SINCE, PATTERN_SINCE = 1, 2
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


@app.command("list")
@command
def list_transactions(
    *,
    states: Annotated[list[str] | None, typer.Option("--state", help="Only in this state, such as Ongoing; may be repeated.")] = None,
    producer_ids: Annotated[list[int] | None, typer.Option("--producer-id", help="Only of this producer id; may be repeated.")] = None,
    duration_filter: Annotated[int, typer.Option(metavar="MS", help="Only transactions that have been open for at least this time.")] = -1,
    pattern: Annotated[str | None, typer.Option("--transactional-id-pattern", metavar="RE2", help="Only matching ids.")] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the transactional ids that the brokers coordinate, each with its producer id and state."""
    request = ListTransactionsRequest(states or [], producer_ids or [], duration_filter, pattern)
    needed = PATTERN_SINCE if pattern is not None else DURATION_SINCE if duration_filter >= 0 else 0
    with AdminClient(bootstrap) as cluster:
        nodes = [broker.node_id for broker in cluster.metadata().brokers]
        answers = list(zip(nodes, cluster.every_broker(request, needed), strict=True))
    rows = []
    for node, answer in answers:
        check(answer.error_code, f"transactions of broker {node}")
        if answer.unknown_state_filters:
            raise CliError(
                f"{answer.unknown_state_filters[0]!r} is not a state: use Ongoing, Empty, PrepareCommit, CompleteAbort, for example"
            )
        rows += [(found.transactional_id, node, found.producer_id, found.transaction_state) for found in answer.transaction_states]
    print_rows(("transactional id", "coordinator", "producer id", "state"), sorted(rows), as_json=as_json)


@app.command("describe")
@command
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID")], bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False
) -> None:
    """Show a transactional id's state, and the duration and partitions of its transaction."""
    with AdminClient(bootstrap) as cluster:
        found = _described(cluster, transactional_id)
    started = None if found.transaction_start_time_ms == NO_TIME else found.transaction_start_time_ms
    running = _now_ms() - started if started is not None and found.transaction_state in OPEN_STATES else None
    places = [f"{topic.topic}-{index}" for topic in found.topics for index in sorted(topic.partitions)]
    document = {
        "transactional id": found.transactional_id,
        "producer id": found.producer_id,
        "producer epoch": found.producer_epoch,
        "state": found.transaction_state,
        "timeout ms": found.transaction_timeout_ms,
        "started ms": started,
        "running ms": running,
        "partitions": places,
    }
    if as_json:
        print_json(document)
    else:
        print_table(
            ("field", "value"), [(name, ", ".join(places) or None if value is places else value) for name, value in document.items()]
        )


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that is open in a partition, according to the partition's leader."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@app.command("find-hanging")
@judging
def find_hanging(
    *,
    topics: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only in this topic; may be repeated. Default: all.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only in this partition of the topic.")] = None,
    broker_id: Annotated[int | None, typer.Option(help="Only in partitions that this broker leads.")] = None,
    max_transaction_timeout: Annotated[
        float, typer.Option(min=0, metavar="MINUTES", help="The longest timeout of any producer: later writers may still be alive.")
    ] = 15,
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in a partition but unknown to their coordinator. Exit code 1: there are some; 2: it cannot be
    decided."""
    if partition is not None and len(topics or []) != 1:
        raise CliError("--partition needs one --topic")
    with AdminClient(bootstrap) as cluster:
        places = [
            TopicPartition(topic.name or "", each.partition_index)
            for topic in cluster.topics(topics)
            for each in topic.partitions
            if partition in (None, each.partition_index)
        ]
        if partition is not None and not places:
            raise CliError(f"topic {(topics or [''])[0]!r} has no partition {partition}")
        silent_since = _now_ms() - max_transaction_timeout * 60_000
        candidates = [each for each in _open_transactions(cluster, places, broker_id) if each.last_timestamp <= silent_since]
        hanging = _hanging(cluster, candidates)
    columns = [name.replace("_", " ") for name in Open.__dataclass_fields__]
    print_rows(columns, [tuple(asdict(each).values()) for each in hanging], as_json=as_json)
    if hanging:
        note("End one with: ottla transactions abort TOPIC PARTITION --start-offset OFFSET")
        raise typer.Exit(1)


@app.command("abort")
@command
def abort(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION")],
    start_offset: Annotated[int, typer.Option(help="The transaction's first offset in the partition, as find-hanging shows it.")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    yes: Yes = False,
) -> None:
    """Abort a hanging transaction by writing the missing abort marker.

    For example: ottla transactions abort orders 0 --start-offset 1234

    A transaction that its coordinator knows is not aborted: its producer or its timeout ends it.
    """
    place = TopicPartition(topic, partition)
    with AdminClient(bootstrap) as cluster:
        found = [each for each in _open_transactions(cluster, [place], None) if each.start_offset == start_offset]
        if not found:
            raise CliError(f"no open transaction of {topic}-{partition} begins at offset {start_offset}")
        if not _hanging(cluster, found):
            raise CliError(f"the coordinator of producer {found[0].producer_id} knows this transaction: it does not hang")
        if not yes:
            typer.confirm(f"Abort the transaction of producer {found[0].producer_id} in {topic}-{partition}?", abort=True, err=True)
        _write_abort(cluster, found[0])
    say(f"aborted the transaction of producer {found[0].producer_id} in {topic}-{partition}")


def _write_abort(cluster: AdminClient, found: Open) -> None:
    """Write the abort marker of a hanging transaction into its partition. The partition's leader accepts the marker, because it has the
    producer epoch and coordinator epoch that the leader saw last. Raises ErrorResponse if the leader rejects the marker."""
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(found.topic, [found.partition])],
        coordinator_epoch=max(found.coordinator_epoch, 0),
    )
    ((leader, _),) = cluster.by_leader([found.place]).items()
    for result in cluster.node(leader, WriteTxnMarkersRequest([marker])).markers:
        for topic in result.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"the marker in {topic.name}-{partition.partition_index}")


def _described(cluster: AdminClient, transactional_id: str) -> TransactionState:
    answer = cluster.coordinator(transactional_id, DescribeTransactionsRequest([transactional_id]), TRANSACTION)
    found: TransactionState = answer.transaction_states[0]
    check(found.error_code, f"transactional id {transactional_id!r}")
    return found


def _open_transactions(cluster: AdminClient, places: Iterable[TopicPartition], broker_id: int | None) -> list[Open]:
    """Return the open transactions of these partitions, according to their leaders; with `broker_id`, only those of partitions that this
    broker leads. Raises ErrorResponse if a leader answers with an error."""
    found: list[Open] = []
    for leader, led in cluster.by_leader(places).items():
        if broker_id not in (None, leader):
            continue
        requested: dict[str, list[int]] = {}
        for place in led:
            requested.setdefault(place.topic, []).append(place.partition)
        request = DescribeProducersRequest([TopicRequest(topic, indexes) for topic, indexes in requested.items()])
        for topic in cluster.node(leader, request).topics:
            for partition in topic.partitions:
                check(partition.error_code, f"producers of {topic.name}-{partition.partition_index}", partition.error_message)
                found += [_open(topic.name, partition.partition_index, producer) for producer in partition.active_producers]
    return [each for each in found if each.start_offset != NO_OFFSET]


def _open(topic: str, partition: int, producer: ProducerState) -> Open:
    return Open(
        topic,
        partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
        producer.last_timestamp,
    )


def _hanging(cluster: AdminClient, candidates: Sequence[Open]) -> list[Open]:
    """Return the candidates that hang: no coordinator has an ongoing transaction of the same producer id in the same partition."""
    if not candidates:
        return []
    producers = sorted({each.producer_id for each in candidates})
    ids: dict[int, str] = {}
    for answer in cluster.every_broker(ListTransactionsRequest(producer_id_filters=producers)):
        check(answer.error_code, "transactions of a broker")
        ids.update({listed.producer_id: listed.transactional_id for listed in answer.transaction_states})
    known: set[tuple[int, TopicPartition]] = set()
    for producer_id, transactional_id in sorted(ids.items()):
        topics = _described(cluster, transactional_id).topics
        known |= {(producer_id, TopicPartition(topic.topic, index)) for topic in topics for index in topic.partitions}
    return [each for each in candidates if (each.producer_id, each.place) not in known]


def _now_ms() -> int:
    return int(time.time() * 1000)
