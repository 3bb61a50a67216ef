from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.api import k61_describe_producers as k61
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, PartitionResponse, ProducerState, TopicRequest
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


def ask(client: Client, topic: str, *indexes: int) -> list[PartitionResponse]:
    (answer,) = client.call(DescribeProducersRequest([TopicRequest(topic, list(indexes))])).topics
    assert answer.name == topic
    return answer.partitions  # type: ignore[no-any-return] # Client.call is typed by the request class


def test_an_idempotent_producer_has_its_last_sequence_also_after_a_kill(broker: RunningBroker) -> None:
    with broker.client() as client:
        create(client, "t")
        producer_id = client.call(InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)).producer_id
        produce(client, "t", b"a", b"b", producer_id=producer_id, base_sequence=0)
        produce(client, "t", b"not idempotent")
    broker.restart(kill=True)
    with broker.client() as client:
        (partition,) = ask(client, "t", 0)
    (producer,) = partition.active_producers
    assert partition.error_code == 0
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (producer_id, 0, 1)
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, -1)
    assert producer.last_timestamp > 1_700_000_000_000


def test_an_unknown_partition_has_an_error(client: Client) -> None:
    create(client, "t")
    here, not_here = ask(client, "t", 0, 5)
    assert (here.error_code, not_here.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert ask(client, "no", 0)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, "no", 0)[0].error_message


def test_very_many_producers_are_described_in_several_turns(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.core.limits.LISTED_AT_ONCE", 2)
    monkeypatch.setattr(k61, "PARTS_AT_ONCE", 1)
    sizes: list[int] = []
    describe = k61.describe

    def recording(parts: Sequence[k61.Part]) -> list[ProducerState]:
        sizes.append(sum(len(entries) for _, entries in parts))
        return describe(parts)

    monkeypatch.setattr(k61, "describe", recording)
    with broker.client() as client:
        create(client, "t", 2)
        for producer_id in range(1_000, 1_005):
            produce(client, "t", b"a", producer_id=producer_id, base_sequence=0)
        many, none, unknown = ask(client, "t", 0, 1, 7)
    assert sizes == [2, 2, 1]
    assert [producer.producer_id for producer in many.active_producers] == list(range(1_000, 1_005))
    assert (none.error_code, none.active_producers) == (0, [])
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
