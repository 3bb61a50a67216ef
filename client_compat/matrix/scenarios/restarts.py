"""Broker restarts, after a clean shutdown or SIGKILL, while clients work."""

from __future__ import annotations

from client_compat.clients.options import ProducerOptions
from client_compat.matrix.facades import Record, Sent, places
from client_compat.matrix.scenario import ScenarioContext, expect, in_parallel, poll_until, same, scenario

ROUNDS = 12
PER_ROUND = 100
PARTITIONS = 2
SEND_TIMEOUT_MS = 60_000


def _under_load(context: ScenarioContext, *, kill: bool, options: ProducerOptions) -> tuple[list[tuple[Sent, int]], list[list[int]]]:
    """Send numbered records in rounds while the broker restarts. Return each record's result with its number, and for each partition the
    numbers in its log."""
    topic = context.topic(PARTITIONS)
    producer = context.producer(**options)
    producer.send_ok(topic, [Record(b"-1", partition=index) for index in range(PARTITIONS)])

    def load() -> list[tuple[Sent, int]]:
        found: list[tuple[Sent, int]] = []
        for start in range(0, ROUNDS * PER_ROUND, PER_ROUND):
            numbers = range(start, start + PER_ROUND)
            records = [Record(b"%d" % number, partition=number % PARTITIONS) for number in numbers]
            found += zip(producer.send(topic, records, timeout_ms=SEND_TIMEOUT_MS), numbers, strict=True)
        return found

    def go_and_come() -> list[tuple[Sent, int]]:
        if kill:
            context.broker.kill()
        else:
            context.broker.stop()
        context.broker.start()
        return []

    sent, _ = in_parallel(load, go_and_come)
    producer.close()
    context.truth.wait_until_led(topic, PARTITIONS)
    logs = [[int(value or b"") for value in context.truth.values(topic, index)] for index in range(PARTITIONS)]
    return sent, logs


def _each_once(context: ScenarioContext, *, kill: bool) -> None:
    """Restart the broker under load, and check that every record was acknowledged and is stored once, in order, at the acknowledged
    offset."""
    sent, logs = _under_load(context, kill=kill, options={"acks": "all", "idempotent": True, "retries": 1_000})
    places([one for one, _ in sent])
    for one, number in sent:
        if one.error is not None:
            raise one.error
        expect(logs[one.partition][one.offset] == number, f"{number}, acknowledged at {one.partition}:{one.offset}, is not there")
    for index, log in enumerate(logs):
        same(log, [-1, *range(index, ROUNDS * PER_ROUND, PARTITIONS)], f"partition {index}")


def _none_lost(context: ScenarioContext, *, kill: bool) -> None:
    """Restart the broker under load, and check that every acknowledged record is stored. Records that were not acknowledged may be stored
    or not."""
    sent, logs = _under_load(context, kill=kill, options={"acks": "all", "idempotent": False, "retries": 1_000})
    acknowledged = {number for one, number in sent if one.error is None}
    expect(len(acknowledged) > ROUNDS * PER_ROUND // 2, f"only {len(acknowledged)} of {ROUNDS * PER_ROUND} records were acknowledged")
    lost = acknowledged - {number for log in logs for number in log}
    expect(not lost, f"{len(lost)} acknowledged records are not there: {sorted(lost)[:10]}")


@scenario("After a clean restart under load, an idempotent producer's records are stored once, in order.", durable=True, timeout_s=180.0)
def restarts_idempotent(context: ScenarioContext) -> None:
    _each_once(context, kill=False)


@scenario("After a SIGKILL under load, an idempotent producer's records are stored once, in order.", durable=True, timeout_s=180.0)
def kills_idempotent(context: ScenarioContext) -> None:
    _each_once(context, kill=True)


@scenario("A clean restart under load loses no acknowledged record.", durable=True, timeout_s=180.0)
def restarts(context: ScenarioContext) -> None:
    _none_lost(context, kill=False)


@scenario("A SIGKILL under load loses no acknowledged record.", durable=True, timeout_s=180.0)
def kills(context: ScenarioContext) -> None:
    _none_lost(context, kill=True)


@scenario("After a restart of the broker a consumer continues from its position.", durable=True)
def consumer_after_a_restart(context: ScenarioContext) -> None:
    topic = context.topic()
    context.truth.write_values(topic, [b"0", b"1"])
    consumer = context.consumer(reset="earliest")
    consumer.assign([(topic, 0)])
    poll_until(consumer, 2)
    context.broker.stop()
    context.broker.start()
    context.truth.wait_until_led(topic)
    context.truth.write_values(topic, [b"2", b"3"])
    same([one.value for one in poll_until(consumer, 2, timeout_ms=45_000)], [b"2", b"3"], "values after the restart")
    consumer.close()


@scenario("A producer and a consumer that were idle during a restart refresh their metadata and continue.", durable=True)
def idle_over_a_restart(context: ScenarioContext) -> None:
    topic = context.topic()
    producer, consumer = context.producer(acks="all"), context.consumer(reset="earliest")
    producer.send_ok(topic, [Record(b"before", partition=0)], mode="sync")
    consumer.assign([(topic, 0)])
    same([one.value for one in poll_until(consumer, 1)], [b"before"], "values before")
    context.broker.kill()
    context.broker.start()
    context.truth.wait_until_led(topic)
    producer.send_ok(topic, [Record(b"after", partition=0)], mode="sync", timeout_ms=45_000)
    same([one.value for one in poll_until(consumer, 1, timeout_ms=45_000)], [b"after"], "values after")
    same(context.truth.values(topic), [b"before", b"after"], "the log's values")
    producer.close()
    consumer.close()
