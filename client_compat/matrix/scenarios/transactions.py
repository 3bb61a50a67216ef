"""Transactions: commit, abort, isolation, fencing, offsets in a transaction, timeouts."""

from __future__ import annotations

from contextlib import suppress

from client_compat.matrix.control import ClientError, Unsupported
from client_compat.matrix.facades import ConsumedRecord, Producer, Record, numbered
from client_compat.matrix.membership import GroupTruth
from client_compat.matrix.scenario import ScenarioContext, expect, poll_until, same, scenario
from client_compat.matrix.truth import until
from ottla.protocol.records.control import ControlType

COUNT = 20
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
"""The errors with which a broker reports a newer producer; a client may have its own error for it."""
EXPIRY_S = 30.0
"""How long, in seconds, a scenario waits for the marker of an expired transaction. Apache Kafka checks for expired transactions every ten
seconds."""


def _transact(producer: Producer, topic: str, records: list[Record], *, keep: bool = True) -> None:
    """Send the records in a transaction; commit the transaction if `keep`, otherwise abort it."""
    producer.begin()
    producer.send_ok(topic, records)
    _end(producer, keep=keep)


def _end(producer: Producer, *, keep: bool) -> None:
    if keep:
        producer.commit()
    else:
        producer.abort()


def _values(taken: list[ConsumedRecord]) -> list[bytes | None]:
    return [one.value for one in taken]


def _text(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def _read(
    context: ScenarioContext, topic: str, count: int, isolation: str = "read_committed", *, partitions: int = 1
) -> list[ConsumedRecord]:
    """Read `count` records from the beginning with a consumer of this isolation level, check that no further record follows, and return the
    records."""
    consumer = context.consumer(reset="earliest", isolation="read_committed" if isolation == "read_committed" else "read_uncommitted")
    consumer.assign([(topic, index) for index in range(partitions)])
    taken = poll_until(consumer, count) if count else []
    same(_values(consumer.poll(1, 700)), [], f"what else a {isolation} consumer is given")
    consumer.close()
    return taken


def _markers(context: ScenarioContext, topic: str, partition: int = 0) -> list[ControlType]:
    """Return the types of the control records in a partition's log, in order."""
    control = [batch for batch in context.truth.batches(topic, partition) if batch.header.is_control]
    return [ControlType(int.from_bytes((batch.records[0].key or b"")[2:4])) for batch in control]


def _wait_for_markers(context: ScenarioContext, topic: str, wanted: list[ControlType]) -> None:
    """Wait until the log has exactly the transaction markers `wanted`: the coordinator answers EndTxn before it has written them."""
    for _ in until(f"the log's markers are {[one.name for one in wanted]}", EXPIRY_S):
        if _markers(context, topic) == wanted:
            return


@scenario("A read_committed consumer reads a committed transaction's records in order.", quick=True)
def transaction_commit(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    _transact(producer, topic, numbered(COUNT, partition=0))
    producer.close()
    same(_values(_read(context, topic, COUNT)), _text(0, COUNT), "values")
    _wait_for_markers(context, topic, [COMMIT])
    data = [batch.header for batch in context.truth.batches(topic) if not batch.header.is_control]
    expect(all(header.is_transactional for header in data), "there are batches that are not transactional")


@scenario("A read_uncommitted consumer reads an aborted transaction's records, a read_committed consumer does not.", quick=True)
def transaction_abort(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    _transact(producer, topic, numbered(COUNT, partition=0), keep=False)
    _wait_for_markers(context, topic, [ABORT])
    _transact(producer, topic, numbered(1, partition=0, start=COUNT))
    producer.close()
    same(_values(_read(context, topic, 1)), [b"%d" % COUNT], "values of a read_committed consumer")
    same(_values(_read(context, topic, COUNT + 1, "read_uncommitted")), _text(0, COUNT + 1), "values of a read_uncommitted consumer")


@scenario("With transactions that alternately commit and abort, exactly the committed records are read.")
def transactions_in_turn(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    for round_ in range(6):
        _transact(producer, topic, numbered(COUNT, partition=0, start=round_ * COUNT), keep=round_ % 2 == 0)
    producer.close()
    wanted = [value for round_ in (0, 2, 4) for value in _text(round_ * COUNT, (round_ + 1) * COUNT)]
    same(_values(_read(context, topic, len(wanted))), wanted, "values")
    _wait_for_markers(context, topic, [COMMIT, ABORT] * 3)


@scenario("While a transaction is open, a read_committed consumer gets no records after the transaction's first one.")
def open_transaction_hides(context: ScenarioContext) -> None:
    topic = context.topic()
    context.truth.write_values(topic, [b"before"])
    producer = context.producer(transactional_id=context.name("txn"))
    producer.begin()
    producer.send_ok(topic, numbered(3, partition=0))
    context.truth.write_values(topic, [b"behind"])
    same(_values(_read(context, topic, 1)), [b"before"], "values while it is open")
    same(len(_read(context, topic, 5, "read_uncommitted")), 5, "records that a read_uncommitted consumer is given")
    producer.commit()
    same(_values(_read(context, topic, 5)), [b"before", b"0", b"1", b"2", b"behind"], "values after its commit")
    producer.close()


@scenario("A transaction over six partitions of two topics commits and aborts in all of them.")
def transaction_over_partitions(context: ScenarioContext) -> None:
    topics = [context.topic(3), context.topic(3)]
    producer = context.producer(transactional_id=context.name("txn"))
    for keep in (True, False, True):
        producer.begin()
        for topic in topics:
            producer.send_ok(topic, [Record(b"%d" % keep, partition=index) for index in range(3)])
        _end(producer, keep=keep)
    producer.close()
    for topic in topics:
        taken = _read(context, topic, 6, partitions=3)
        same(sorted((one.partition, one.value) for one in taken), [(index, b"1") for index in (0, 0, 1, 1, 2, 2)], "partitions and values")
        for index in range(3):
            same(_markers(context, topic, index), [COMMIT, ABORT, COMMIT], f"markers of partition {index}")


@scenario("A newer producer with the same transactional id fences the older, whose open transaction is aborted.", quick=True)
def transaction_fence(context: ScenarioContext) -> None:
    topic, name = context.topic(), context.name("txn")
    older = context.producer(transactional_id=name)
    older.begin()
    older.send_ok(topic, [Record(b"older", partition=0)])
    newer = context.another().producer(transactional_id=name)
    _transact(newer, topic, [Record(b"newer", partition=0)])
    fenced = _refusal(older, topic)
    expect(fenced is not None, "the older one goes on")
    assert fenced is not None
    expect(fenced.code in FENCED or fenced.code.startswith("CLIENT:"), f"the older one failed with {fenced}")
    with suppress(ClientError):
        # kafka-python requests a new epoch when it closes. The coordinator finds the transaction by producer id, as Apache Kafka's does, so
        # the request would abort an open transaction of the newer producer.
        older.close()
    _transact(newer, topic, [Record(b"again", partition=0)])
    newer.close()
    same(_values(_read(context, topic, 2)), [b"newer", b"again"], "values")


def _refusal(producer: Producer, topic: str) -> ClientError | None:
    """Let a fenced producer run a transaction; return the error of the first call that fails. Return None if the transaction commits."""
    try:
        (sent,) = producer.send(topic, [Record(b"zombie", partition=0)], timeout_ms=15_000)
        producer.commit()
    except ClientError as error:
        return error
    return sent.error


@scenario("When a program is killed in a transaction, its successor's initialisation aborts the transaction.")
def killed_in_a_transaction(context: ScenarioContext) -> None:
    topic, name = context.topic(), context.name("txn")
    survivor, killed = context.client, context.another()
    older = killed.producer(transactional_id=name)
    older.begin()
    older.send_ok(topic, [Record(b"lost", partition=0)])
    killed.program.kill()
    newer = survivor.producer(transactional_id=name)
    _wait_for_markers(context, topic, [ABORT])
    _transact(newer, topic, [Record(b"kept", partition=0)])
    newer.close()
    same(_values(_read(context, topic, 1)), [b"kept"], "values")


@scenario("The broker aborts a transaction that is open for longer than its timeout, and it cannot be committed.", timeout_s=120.0)
def transaction_timeout(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"), transaction_timeout_ms=2_000)
    producer.begin()
    producer.send_ok(topic, [Record(b"late", partition=0)])
    _wait_for_markers(context, topic, [ABORT])
    try:
        producer.commit()
    except ClientError as error:
        expect(bool(error.code), "the error has no code")
    else:
        expect(False, "it was committed")
    same(_values(_read(context, topic, 0)), [], "values")
    same(_markers(context, topic), [ABORT], "markers")


@scenario("Consume, transform, produce: with offsets in the transaction, every record is transformed exactly once in spite of aborts.")
def consume_transform_produce(context: ScenarioContext) -> None:
    source, target, group = context.topic(), context.topic(), context.name("group")
    context.truth.write_values(source, _text(0, 4 * COUNT))
    consumer = context.consumer(group=group, reset="earliest", isolation="read_committed", auto_commit=False)
    consumer.subscribe([source])
    producer = context.producer(transactional_id=context.name("txn"))
    taken = poll_until(consumer, 4 * COUNT)
    for start in range(0, 4 * COUNT, COUNT):
        part = taken[start : start + COUNT]
        for keep in (False, True):
            producer.begin()
            producer.send_ok(target, [Record(b"%d" % (2 * int(one.value or b"0")), partition=0) for one in part])
            producer.send_offsets(consumer, {(source, 0): part[-1].offset + 1})
            _end(producer, keep=keep)
    same(_values(_read(context, target, 4 * COUNT)), [b"%d" % (2 * number) for number in range(4 * COUNT)], "values")
    truth = GroupTruth(context.broker.process.port)
    truth.wait_until_committed(group, {(source, 0): 4 * COUNT}, lambda: consumer.poll(1, 100))
    producer.close()
    consumer.close()


@scenario("Offsets in an aborted transaction are not committed.")
def offsets_of_an_abort(context: ScenarioContext) -> None:
    source, target, group = context.topic(), context.topic(), context.name("group")
    context.truth.write_values(source, _text(0, COUNT))
    consumer = context.consumer(group=group, reset="earliest", auto_commit=False)
    consumer.subscribe([source])
    poll_until(consumer, COUNT)
    producer = context.producer(transactional_id=context.name("txn"))
    producer.begin()
    producer.send_ok(target, [Record(b"x", partition=0)])
    producer.send_offsets(consumer, {(source, 0): 5})
    producer.abort()
    _wait_for_markers(context, target, [ABORT])
    same(GroupTruth(context.broker.process.port).offsets(group, [(source, 0)]), {(source, 0): -1}, "what is committed")
    producer.close()
    consumer.close()


@scenario(
    "A transaction that is open during a restart of the broker can be committed afterwards, as a whole.", durable=True, timeout_s=180.0
)
def transaction_over_a_restart(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    producer.begin()
    producer.send_ok(topic, _partition_0(0, COUNT), mode="sync")
    context.broker.stop()
    context.broker.start()
    context.truth.wait_until_led(topic)
    producer.send_ok(topic, _partition_0(COUNT, 2 * COUNT), timeout_ms=60_000)
    producer.commit()
    producer.close()
    same(_values(_read(context, topic, 2 * COUNT)), _text(0, 2 * COUNT), "values")


@scenario("A transactional producer rejects a send outside a transaction.")
def send_outside_a_transaction(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    try:
        (sent,) = producer.send(topic, [Record(b"v", partition=0)], timeout_ms=10_000)
    except (ClientError, Unsupported):
        return
    expect(sent.error is not None, "the record was acknowledged")
    same(context.truth.values(topic), [], "the log's values")


def _partition_0(start: int, end: int) -> list[Record]:
    return [Record(value, partition=0) for value in _text(start, end)]
