"""With several requests in flight and retries, but without idempotence, a batch that failed once is stored after its successors.

With idempotence, the broker rejects the successors because of their sequence, and the client sends all batches again in order. This
requires that the broker knows the producer: for an unknown producer it accepts any first sequence, so that a producer with expired state
can continue. If the very first batch is rejected, its successors are therefore stored. librdkafka then treats their acknowledgement as the
first batch's, too ("implicitly acked by subsequent batch success"): it reports a record as delivered, without an offset, that is not
stored.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, Message

from client_compat.support.stage import READ_S, InFlight, Stage

FIRST = "0"
VALUES = ["1", "2", "3", "4"]


def reorders(stage: Stage) -> bool:
    """Send four batches with confluent-kafka, all in flight, of which the first fails with NOT_ENOUGH_REPLICAS and is retried. Return
    whether the retried batch is stored behind the others without idempotence, and in order with idempotence."""
    off, _ = _send(stage, "steps-off", idempotent=False)
    on, _ = _send(stage, "steps-on", idempotent=True)
    return off == [FIRST, *VALUES[1:], VALUES[0]] and on == [FIRST, *VALUES]


def loses_the_first(stage: Stage) -> bool:
    """Reproduce the loss of a rejected first batch: an idempotent producer that the partition does not know yet has four batches in flight.
    Return whether the client reports the first batch as delivered although it is not stored."""
    stored, outcomes = _send(stage, "steps-unknown", idempotent=True, known=False)
    return stored == VALUES[1:] and outcomes == {"1": "delivered, without an offset", "2": "offset 0", "3": "offset 1", "4": "offset 2"}


def _send(stage: Stage, topic: str, *, idempotent: bool, known: bool = True) -> tuple[list[str], dict[str, str]]:
    """Send four batches, all in flight, while a fault rule rejects the first one once. With `known`, the producer has written to the
    partition before. Return the values in the log, and for each value the client's report as text."""
    stage.truth.create_topic(topic)
    outcomes: dict[str, str] = {}
    in_flight = InFlight()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        delivered = "delivered, without an offset" if offset is None else f"offset {offset}"
        outcomes[(message.value() or b"").decode()] = delivered if error is None else error.name()

    producer = stage.producer(enable_idempotence=idempotent, stats_cb=in_flight, **InFlight.SETTINGS)
    if known:
        producer.produce(topic, FIRST.encode(), partition=0)
        producer.flush(READ_S)
    stage.admin.add(f"hold-request:api=Produce,topic={topic},times=1,name=gate-{topic}")
    stage.admin.add(f"error:api=Produce,topic={topic},code=NOT_ENOUGH_REPLICAS,times=1,name=refused-{topic}")
    for value in VALUES:
        producer.produce(topic, value.encode(), partition=0, on_delivery=on_delivery)
    in_flight.wait(producer, len(VALUES))
    stage.admin.release(f"gate-{topic}")
    producer.flush(READ_S)
    state = "on" if idempotent else "off"
    stage.print_line(f"Idempotence {state}: {len(VALUES)} batches in flight, the first is answered NOT_ENOUGH_REPLICAS and retried:")
    stage.print_log(topic)
    stage.print_line(f"The client was told: {'; '.join(f'“{value}” {what}' for value, what in outcomes.items())}.")
    return stage.stored(topic), outcomes
