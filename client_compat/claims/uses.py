"""Claims (common statements) about deduplication by a business key in the consuming application, and about the automatic creation of
topics. In docs/exactly-once.md: 27, 28."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.claims.identity import CLIENT, log
from client_compat.dedupe.consumer import step
from client_compat.dedupe.sqlite_store import SqliteStore
from client_compat.matrix.facades import Record
from client_compat.support.brokers import ottla


@claim(27, "A consumer should still dedupe by a business id in a database or Redis")
def business_id(environment: ClaimEnvironment) -> CheckResult:
    topic = environment.topic()
    for _ in range(2):
        producer = environment.client(CLIENT).producer(idempotent=True, acks="all")
        producer.send_ok(topic, [Record(b"charge 5", b"order 7", partition=0)])
        producer.close()
    charged: list[int] = []

    async def consume(path: str) -> tuple[int, int]:
        async def charge(_: object, record: ConsumerRecord) -> None:
            charged.append(record.offset)

        consumer = AIOKafkaConsumer(
            bootstrap_servers=environment.stage.broker.bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        applied = repeated = 0
        with SqliteStore(path) as store:
            async with consumer:
                consumer.assign([TopicPartition(topic, 0)])
                while applied + repeated < 2:
                    done = await step(consumer, store, lambda record: (record.key or b"").decode(), charge)
                    applied, repeated = applied + done.applied, repeated + done.repeated
        return applied, repeated

    applied, repeated = asyncio.run(asyncio.wait_for(consume(str(environment.directory / "processed.db")), 30))
    held = (applied, repeated, charged) == (1, 1, [0])
    evidence = [*log(environment, topic), f"read 2, effects in SQLite {applied}, recognised by the key “order 7” {repeated}"]
    return CheckResult(held, "the application sent its event twice: to the broker two records, to the store one order", evidence)


@claim(28, "Writing to a topic that does not exist creates it")
def creates(environment: ClaimEnvironment) -> CheckResult:
    topic = environment.name("never-made")
    producer = environment.client(CLIENT).producer(acks="all")
    (sent,) = producer.send_ok(topic, [Record(b"x")])
    producer.close()
    with ottla(environment.directory / "strict", options=("--set", "auto.create.topics.enable=false")) as strict:
        client = environment.stage.producer(
            bootstrap_servers=strict.bootstrap, message_timeout_ms=2_000, topic_metadata_propagation_max_ms=1
        )
        outcomes: list[str] = []
        client.produce(topic, b"x", on_delivery=lambda error, _: outcomes.append("NONE" if error is None else error.name()))
        client.flush(5)
    held = sent.offset == 0 and outcomes != ["NONE"] and environment.truth.end_offset(topic, sent.partition) == 1
    evidence = [f"auto.create.topics.enable=true: partition {sent.partition} offset {sent.offset}", f"=false: {outcomes}"]
    return CheckResult(held, "while auto.create.topics.enable is true, its default", evidence)
