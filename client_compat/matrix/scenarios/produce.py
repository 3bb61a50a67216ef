"""Producing: acknowledgements, ways of sending, sizes and limits."""

from __future__ import annotations

from client_compat.matrix.facades import Mode, numbered
from client_compat.matrix.scenario import Scene, expect, same, scenario

COUNT = 100


def _sent_in_order(scene: Scene, mode: Mode, count: int = COUNT, **options: object) -> None:
    topic = scene.topic()
    producer = scene.producer(acks="all")
    sent = producer.send_ok(topic, numbered(count, partition=0), mode=mode)
    producer.close()
    same([one.offset for one in sent], list(range(count)), "offsets that were acknowledged")
    same(scene.truth.values(topic), [record.value for record in numbered(count)], "the log's values")


@scenario("With acks=all, records sent one after the other are acknowledged with the offsets at which they are stored.", quick=True)
def acks_all_sync(scene: Scene) -> None:
    _sent_in_order(scene, "sync", 20)


@scenario("With acks=all, records sent together are acknowledged through callbacks, futures or promises, each with its offset.")
def acks_all_async(scene: Scene) -> None:
    _sent_in_order(scene, "async")


@scenario("What was produced is consumed: same values, same order, from the first offset.", quick=True)
def produce_consume(scene: Scene) -> None:
    topic = scene.topic()
    producer = scene.producer(acks="all")
    producer.send_ok(topic, numbered(COUNT, partition=0))
    producer.close()
    taken = scene.read(topic, COUNT)
    expect(len(taken) == COUNT, f"{len(taken)} records were consumed of {COUNT}")
    same([(one.offset, one.value) for one in taken], [(n, str(n).encode()) for n in range(COUNT)], "offsets and values consumed")
