"""Kafka's controller and Ottla's get the same requests; `make controller-differential` runs as many such sequences as wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.cluster.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from tests.support.controller_differential import STEPS, Tally, differences, shrink_plan
from tests.support.controller_topic_steps import KINDS, plan
from tests.support.kafka_controller import Answer, KafkaController, Known, Order, Request
from tests.support.ottlas_controller import OttlasController, Verdict


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaController]:
    try:
        with KafkaController() as kafka:
            yield kafka
    except KafkaMissing as missing:
        pytest.skip(str(missing))


def test_sequence_covers_broker_and_partition_decisions_of_kafkas_controller(kafka: KafkaController) -> None:
    known, decided, refused, orders = Known(), Counter[str](), 0, 0
    sequence = plan(3, length=100)
    known.learn(sequence.start, kafka.execute(sequence.start))
    for step in sequence.steps:
        for order in KINDS[step.kind](known, Random(step.seed)):
            answer = kafka.execute(order)
            known.learn(order, answer)
            decided.update(type(record).__name__ for record in answer.decoded())
            refused += isinstance(order, Request) and not answer.records
            orders += 1
    kinds = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, TopicRecord, PartitionRecord, PartitionChangeRecord, ConfigRecord)
    assert {kind.__name__ for kind in kinds} <= decided.keys()
    assert decided["PartitionChangeRecord"] > 20
    assert 0 < refused < orders


def test_each_sequence_starts_with_a_fresh_kafka_controller(kafka: KafkaController) -> None:
    ends = []
    for _ in range(2):
        known, sequence = Known(), plan(1, length=0)
        known.learn(sequence.start, kafka.execute(sequence.start))
        for order in KINDS["restore_brokers"](known, Random(1)):
            known.learn(order, kafka.execute(order))
        ends.append((known.end_offset, [broker.epoch for broker in known.image.brokers.values()]))
    assert ends[0][0] > 6
    assert ends[0] == ends[1]


@pytest.mark.parametrize("seed", range(8))
def test_controller_decisions_equal_kafkas(kafka: KafkaController, seed: int) -> None:
    tally = Tally()
    found = list(differences(plan(seed, STEPS), kafka, tally))
    assert found == [], "\n".join(map(str, found))
    assert (tally.records > 50, tally.responses > 100, tally.not_judged) == (True, True, Counter())


class Forgetful(OttlasController):
    """A controller with a bug: unregistering a broker writes no record."""

    def execute(self, order: Order, theirs: Answer) -> Verdict | None:
        verdict = super().execute(order, theirs)
        is_unregistration = isinstance(order, Request) and isinstance(order.message, UnregisterBrokerRequest)
        return verdict._replace(records=[]) if verdict is not None and is_unregistration else verdict


def test_differing_decision_is_detected_and_its_sequence_is_shrunk(kafka: KafkaController) -> None:
    long = plan(6, STEPS)
    kinds = {found.kind for found in differences(long, kafka, Tally(), Forgetful)}
    assert kinds == {"UnregisterBroker records"}
    short = shrink_plan(long, kafka, kinds.pop(), Forgetful)
    assert [step.kind for step in short.steps][-1] == "unregister"
    assert len(short.steps) == 2
