"""Claims (common statements) about a producer's identity: ids, epochs, restarts. In docs/exactly-once.md: 4, 5, 8, 9, 10, 13, 20."""

from __future__ import annotations

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Producer, Record
from client_compat.support.log_text import describe
from ottla.protocol.records.batch import BatchHeader

UUID_BITS, PRODUCER_ID_BITS = 128, 63
CLIENT = "confluent-kafka"
FENCED = "kafka-python"
"""The client with which the claim about fencing is tried, because it reports the broker's error by its Kafka name."""


def headers(environment: ClaimEnvironment, topic: str, partition: int = 0) -> list[BatchHeader]:
    """Return the batch headers of a partition, without those of control batches."""
    return [batch.header for batch in environment.truth.batches(topic, partition) if not batch.header.is_control]


def log(environment: ClaimEnvironment, topic: str, partition: int = 0) -> list[str]:
    return [f"partition {partition} {describe(batch)}" for batch in environment.truth.batches(topic, partition)]


def records(*values: str, partition: int = 0) -> list[Record]:
    return [Record(value.encode(), partition=partition) for value in values]


def transactional(environment: ClaimEnvironment, client: str, name: str) -> Producer:
    return environment.client(client).producer(transactional_id=name)


def commit(producer: Producer, topic: str, *values: str) -> None:
    producer.begin()
    producer.send_ok(topic, records(*values))
    producer.commit()


@claim(4, "Each new producer gets a fresh producer id; sequences start at 0 per partition and rise by one per record")
def fresh_ids(environment: ClaimEnvironment) -> CheckResult:
    evidence, held, ids = [], True, set()
    for name in environment.names:
        topic = environment.topic(2)
        producer = environment.client(name).producer(idempotent=True, acks="all")
        for values in (("a", "b", "c"), ("d",)):
            producer.send_ok(topic, [*records(*values), *records(values[0], partition=1)], mode="sync")
        producer.close()
        for partition in range(2):
            found, following = headers(environment, topic, partition), 0
            for header in found:
                held = held and header.base_sequence == following
                following += header.record_count
            evidence.append(f"{name}: {'; '.join(log(environment, topic, partition))}")
        ids.add(found[0].producer_id)
    return CheckResult(
        held and len(ids) == len(environment.names), f"{len(ids)} producers, {len(ids)} ids; sequences from 0 in each partition", evidence
    )


@claim(5, "The producer id is a UUID", right=False)
def uuid(environment: ClaimEnvironment) -> CheckResult:
    ids = [environment.new_producer_id() for _ in range(3)]
    numbers = ids == list(range(ids[0], ids[0] + 3)) and all(one.bit_length() <= PRODUCER_ID_BITS for one in ids)
    return CheckResult(
        not numbers,
        f"three producers got {', '.join(map(str, ids))}: 64-bit numbers from a block of the cluster's",
        [f"InitProducerId: {ids}"],
    )


@claim(8, "A higher epoch replaces a lower one; a lower one is refused")
def epochs(environment: ClaimEnvironment) -> CheckResult:
    topic, producer = environment.topic(), environment.new_producer_id()
    writes = {"epoch 0 sequence 0": (0, 0), "epoch 2 sequence 5": (2, 5), "epoch 2 sequence 0": (2, 0), "epoch 1 sequence 0": (1, 0)}
    answers = {what: environment.raw(topic, what, producer, *where)[0] for what, where in writes.items()}
    held = list(answers.values()) == ["NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE", "INVALID_PRODUCER_EPOCH"]
    name = environment.name("fence")
    first = transactional(environment, FENCED, name)
    commit(first, topic, "of the first")
    second = transactional(environment, FENCED, name)
    try:
        commit(first, topic, "of the zombie")
        zombie = "NONE"
    except ClientError as error:
        zombie = error.code
    second.close()
    held = held and zombie != "NONE" and "of the zombie" not in environment.read(topic, "read_committed", 3)
    evidence = [f"{what}: {error}" for what, error in answers.items()]
    return CheckResult(held, "and a new epoch must begin at sequence 0", [*evidence, f"{FENCED}, the older of two instances: {zombie}"])


def _restarted(environment: ClaimEnvironment, *, with_id: bool) -> tuple[BatchHeader, BatchHeader, list[str]]:
    """Let a producer write one batch, close it, and let a new one write another batch. With `with_id`, both have the same transactional id.
    Return the headers of the two batches, and a description of the partition's log."""
    topic, name = environment.topic(), environment.name("restart")
    for value in ("before", "after"):
        if with_id:
            producer = transactional(environment, CLIENT, name)
            commit(producer, topic, value)
        else:
            producer = environment.client(CLIENT).producer(idempotent=True, acks="all")
            producer.send_ok(topic, records(value))
        producer.close()
    before, after = headers(environment, topic)
    return before, after, log(environment, topic)


@claim(9, "A restarted producer continues with its old epoch and sequence", right=False)
def continues(environment: ClaimEnvironment) -> CheckResult:
    held, evidence = False, []
    for with_id in (False, True):
        before, after, lines = _restarted(environment, with_id=with_id)
        same = (before.producer_id, before.producer_epoch) == (after.producer_id, after.producer_epoch)
        held = held or same or after.base_sequence == 1 or (before.producer_id == after.producer_id) != with_id
        evidence += lines
    return CheckResult(
        held, "without a transactional id it is a stranger; with one it keeps its id, gets a new epoch, and starts at 0", evidence
    )


@claim(10, "With the same transactional id a restart gets a new producer id", right=False)
def new_id(environment: ClaimEnvironment) -> CheckResult:
    before, after, lines = _restarted(environment, with_id=True)
    held = before.producer_id != after.producer_id or after.producer_epoch <= before.producer_epoch
    return CheckResult(held, f"the same id {after.producer_id}, epoch {before.producer_epoch}, then {after.producer_epoch}", lines)


@claim(13, "Idempotence holds within one partition and one producer session only")
def scope(environment: ClaimEnvironment) -> CheckResult:
    topic = environment.topic(2)
    for partitions in ((0, 1), (0,)):
        producer = environment.client(CLIENT).producer(idempotent=True, acks="all")
        for partition in partitions:
            producer.send_ok(topic, records("event 1", partition=partition))
        producer.close()
    held = environment.stage.stored(topic) == ["event 1"] * 2 and environment.stage.stored(topic, 1) == ["event 1"]
    return CheckResult(
        held, "the same event by two sessions, and to two partitions: three copies", log(environment, topic) + log(environment, topic, 1)
    )


@claim(20, "A transactional id switches idempotence on")
def switches_on(environment: ClaimEnvironment) -> CheckResult:
    evidence, held = [], True
    for name in environment.names:
        topic = environment.topic()
        producer = transactional(environment, name, environment.name("on"))
        commit(producer, topic, "x")
        producer.close()
        (header,) = headers(environment, topic)
        held = held and header.producer_id >= 0 and header.base_sequence == 0
        evidence.append(f"{name}: {log(environment, topic)[0]}")
    return CheckResult(held, "nothing but the id was set, and the batches carry producer ids and sequences", evidence)
