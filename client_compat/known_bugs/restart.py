"""Idempotence without transactions ends with the producer: after a restart the application has a new producer id, and the broker stores
again each record that is sent again.

This is no client bug, but users often expect more of `enable.idempotence`. With a transactional id, the restarted producer fences the old
instance and aborts its open transaction, so read_committed consumers see only the new copy.
"""

from __future__ import annotations

from confluent_kafka import Producer

from client_compat.known_bugs.torn_transaction import wait_for_end
from client_compat.support.stage import READ_S, Stage

VALUE = "order 7"


def duplicates(stage: Stage) -> bool:
    """Let an idempotent confluent-kafka producer lose an acknowledgement, die, restart, and send the record again. Return whether the
    record is then stored twice, under two producer ids."""
    topic = "orders"
    stage.truth.create_topic(topic)
    stage.admin.add(f"swallow:api=Produce,topic={topic},times=1,name=silence")
    first = stage.producer(enable_idempotence=True)
    first.produce(topic, VALUE.encode(), partition=0)
    _until_sent(stage, first, "silence")
    first.purge(in_queue=True, in_flight=True, blocking=True)
    stage.print_line(f"Idempotent: “{VALUE}” is appended, the acknowledgement never comes, the producer's program dies.")
    second = stage.producer(enable_idempotence=True)
    second.produce(topic, VALUE.encode(), partition=0)
    second.flush(READ_S)
    stage.print_line("It starts again, knows of no acknowledgement, and sends it again:")
    stage.print_log(topic)
    ids = {batch.header.producer_id for batch in stage.truth.batches(topic)}
    return stage.stored(topic) == [VALUE, VALUE] and len(ids) == 2


def solved_by_transactions(stage: Stage) -> bool:
    """Let a transactional producer lose an acknowledgement, die, restart, and send the record again. Return whether the record is stored
    twice, but a read_committed consumer receives it once."""
    topic = "orders-transactional"
    stage.truth.create_topic(topic)
    first = stage.producer(transactional_id=topic)
    first.init_transactions(READ_S)
    stage.admin.add(f"swallow:api=Produce,topic={topic},times=1,name=silence-too")
    first.begin_transaction()
    first.produce(topic, VALUE.encode(), partition=0)
    _until_sent(stage, first, "silence-too")
    stage.print_line(f"With a transactional id: “{VALUE}” is appended, the program dies before it is told, its transaction open.")
    second = stage.producer(transactional_id=topic)
    second.init_transactions(READ_S)
    second.begin_transaction()
    second.produce(topic, VALUE.encode(), partition=0)
    second.commit_transaction(READ_S)
    wait_for_end(stage, topic, markers=2)
    stage.print_line("It starts again under the same transactional id, sends it again and commits:")
    stage.print_log(topic)
    seen = stage.committed(topic)
    stage.print_line(f"A read_committed consumer reads: {seen}")
    first.purge(in_queue=True, in_flight=True, blocking=True)
    return stage.stored(topic) == [VALUE, VALUE] and seen == [VALUE]


def _until_sent(stage: Stage, producer: Producer, rule: str) -> None:
    """Wait until the broker has appended the record, and the fault rule named `rule` has dropped the response."""
    producer.poll(0)
    stage.admin.wait_hit(rule)
