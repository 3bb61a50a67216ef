"""An idempotent producer stores a record twice, because it increments its epoch during a pending request (librdkafka issue 4953).

If a batch fails, the next one gets OUT_OF_ORDER_SEQUENCE_NUMBER, to which librdkafka reacts with a new epoch for all partitions. If a batch
of another partition was appended, but answered with an error, librdkafka sends it again with the new epoch and sequence 0. The broker
cannot recognize it as a duplicate. The Java client repeats such a batch with the old epoch.
"""

from __future__ import annotations

from client_compat.support.stage import READ_S, InFlight, Stage

TOPIC = "payments"
PAYMENT = "pay 100"


def duplicates(stage: Stage) -> bool:
    """Let an idempotent confluent-kafka producer with three requests in flight, to two partitions, store one record twice: with the
    producer's first epoch, and again with the next. Return whether the record is stored twice."""
    stage.truth.create_topic(TOPIC, 2)
    outcomes: list[str] = []
    in_flight = InFlight()

    producer = stage.producer(enable_idempotence=True, stats_cb=in_flight, **InFlight.SETTINGS)

    def on_delivery(error: object, message: object) -> None:
        outcomes.append(_report(error, message))

    def send(value: str, partition: int) -> None:
        producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=on_delivery)

    send("first", 0)
    send("first", 1)
    producer.flush(READ_S)
    stage.admin.add(f"hold-request:api=Produce,topic={TOPIC},partition=1,times=1,name=gate")
    stage.admin.add(f"error-after:api=Produce,topic={TOPIC},partition=1,code=NOT_ENOUGH_REPLICAS_AFTER_APPEND,times=1,name=kept")
    stage.admin.add(f"error:api=Produce,topic={TOPIC},partition=0,code=NOT_ENOUGH_REPLICAS,times=1,name=refused")
    send(PAYMENT, 1)
    stage.admin.wait_held()  # ensures that it precedes the others on the connection
    send("b", 0)
    send("c", 0)
    in_flight.wait(producer, 3)
    stage.admin.release("gate")
    stage.print_line(f"In flight together: “{PAYMENT}” to partition 1, “b” and “c” to partition 0.")
    stage.print_line("  partition 1: appended, but answered NOT_ENOUGH_REPLICAS_AFTER_APPEND: the client is to send it again")
    stage.print_line("  partition 0: “b” is answered NOT_ENOUGH_REPLICAS, so “c” is answered OUT_OF_ORDER_SEQUENCE_NUMBER")
    left = producer.flush(READ_S)
    stage.print_line(f"The client was told, in the end: {'; '.join(outcomes)}; {left} unanswered.")
    stage.print_log(TOPIC, 2)
    places = [
        (batch.header.base_offset, batch.header.producer_epoch, batch.header.base_sequence)
        for batch in stage.truth.batches(TOPIC, 1)
        if PAYMENT.encode() in (record.value for record in batch.records)
    ]
    copies = [f"offset {offset} (epoch {epoch}, sequence {sequence})" for offset, epoch, sequence in places]
    stage.print_line(f"“{PAYMENT}” stands at {' and '.join(copies)}.")
    return left == 0 and [epoch for _, epoch, _ in places] == [0, 1]


def _report(error: object, message: object) -> str:
    value, partition, offset = (getattr(message, name)() for name in ("value", "partition", "offset"))
    return f"“{value.decode()}” {error or f'at partition {partition} offset {offset}'}"
