"""Dead letter queues over a socket, and one over partitions whose replication stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.share.dead_letter_queues import DeadLetterQueues
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.share.dead_letters import REJECTED, DeadLetters
from ottla.broker.share.settings import ShareSettings
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k84_read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import REJECT, ShareMember, acknowledged, acquired, configure, dead_letters, initialize
from tests.support.simulation import settle
from tests.support.topic_calls import create, describe, produce

ENABLED = {"errors.deadletterqueue.group.enable": "true"}
AUTO_CREATE, PREFIX = "errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix"
TOPIC = 2


@pytest.fixture
def client(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    with RunningBroker(tmp_path / "data", getattr(request, "param", None)) as broker, broker.client() as connected:
        yield connected


def reject(client: Client, queue: str, *, partition: int = 0, value: bytes = b"first", **settings: str) -> None:
    """Let a group with that dead letter queue reject records 0 and 1; wait until they are archived."""
    configure(client, "g", errors__deadletterqueue__topic__name=queue, **settings)
    create(client, "t", partition + 1)
    initialize(client, "t", partition, start_offset=0)
    produce(client, "t", value, b"second", partition=partition)
    member = ShareMember(client, "m", partitions=(partition,))
    assert acquired(member.fetch(max_wait_ms=10_000)) == [(0, 1, 1)]
    assert acknowledged(member.acknowledge((0, 1, [REJECT]), partition=partition)) == [0]
    request = ReadShareGroupStateRequest("g", [ReadStateData(member.topic_id, [PartitionData(partition, 0)])])

    def archived() -> bool:
        (found,) = client.call(request).results[0].partitions
        return [(one.first_offset, one.last_offset, one.delivery_state) for one in found.state_batches] == [(0, 1, 4)]

    wait_until(archived, "the records are archived")


def test_rejected_records_are_copied_to_the_dead_letter_queue(client: Client) -> None:
    create(client, "dlq.q", 2, ENABLED)
    reject(client, "dlq.q", partition=3, errors__deadletterqueue__copy__record__enable="true")
    found = dead_letters(client, "dlq.q", 1)
    assert [record.value for record in found] == [b"first", b"second"]
    assert [dict(record.headers)["__dlq.errors.offset"] for record in found] == [b"0", b"1"]


def test_by_default_dead_letters_have_only_headers(client: Client) -> None:
    create(client, "dlq.q", 1, ENABLED)
    reject(client, "dlq.q")
    assert [(record.key, record.value) for record in dead_letters(client, "dlq.q")] == [(None, None)] * 2


def test_dead_letters_of_several_batches_are_all_written(client: Client) -> None:
    create(client, "dlq.q", 1, ENABLED | {"max.message.bytes": "400"})
    reject(client, "dlq.q", value=b"x" * 150, errors__deadletterqueue__copy__record__enable="true")
    assert [record.value for record in dead_letters(client, "dlq.q")] == [b"x" * 150, b"second"]


@pytest.mark.parametrize(
    ("queue", "configs"),
    [("dlq.plain", {}), ("other", ENABLED), ("dlq.small", ENABLED | {"max.message.bytes": "100"})],
    ids=["not enabled", "another prefix", "records too large"],
)
def test_unusable_dead_letter_queue_stays_empty(client: Client, queue: str, configs: dict[str, str]) -> None:
    create(client, queue, 1, configs)
    reject(client, queue)
    assert dead_letters(client, queue) == []


@pytest.mark.parametrize(
    ("client", "queue", "code"),
    [
        ({}, "dlq.q", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({AUTO_CREATE: "true"}, "dlq.q", ErrorCode.NONE),
        ({AUTO_CREATE: "true"}, "other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({AUTO_CREATE: "true", PREFIX: ""}, "other", ErrorCode.NONE),
    ],
    indirect=["client"],
)
def test_dead_letter_queue_is_created_only_if_the_broker_allows_it(client: Client, queue: str, code: ErrorCode) -> None:
    reject(client, queue)
    assert describe(client, queue)[0].error_code == code


@pytest.mark.parametrize("client", [{AUTO_CREATE: "true", "log.message.timestamp.type": "LogAppendTime"}], indirect=True)
def test_created_dead_letter_queue_is_enabled_and_uses_create_time(client: Client) -> None:
    reject(client, "dlq.q")
    (found,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "dlq.q", None)])).results
    values = {entry.name: entry.value for entry in found.configs}
    assert (values["errors.deadletterqueue.group.enable"], values["message.timestamp.type"]) == ("true", "CreateTime")
    assert len(dead_letters(client, "dlq.q")) == 2


async def test_a_queue_whose_replicas_do_not_confirm_does_not_stop_the_queues_of_other_groups() -> None:
    clock, timers, written = VirtualClock(), Timers(), list[str]()
    settings: Any = SimpleNamespace(settings=BrokerSettings())

    def queue(name: str) -> Any:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        when = {"dlq.stuck": never, "dlq.q": None}[name]
        return SimpleNamespace(append=lambda _, acks_all: written.append(name), when=lambda *_: when)

    def compute(work: Callable[[], object]) -> asyncio.Future[object]:
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        done.set_result(work())
        return done

    catalog: Any = SimpleNamespace(
        topic=lambda name: SimpleNamespace(name=name, topic_id=name, partitions={0: None}),
        configs=lambda *_: ENABLED,
        leader_of=lambda _: 1,
    )
    partitions: Any = SimpleNamespace(get=lambda name, _: queue(name), compute=compute)
    topics: Any = None
    nursery = Nursery(timers, clock, lambda error: pytest.fail(str(error)))
    queues = DeadLetterQueues(
        partitions, catalog, topics, settings, nursery, settings_of=lambda group_id: ShareSettings(dead_letter_topic=f"dlq.{group_id}")
    )
    source: Any = SimpleNamespace(topic="t", index=0)
    letters = DeadLetters(0, 0, 1, REJECTED)
    stuck = asyncio.ensure_future(queues.write("stuck", source, letters))
    other = asyncio.ensure_future(queues.write("q", source, letters))
    await settle()
    assert (written, other.done()) == (["dlq.stuck"], False)
    clock.advance(settings.settings.request_timeout_ms)
    timers.run_due(clock.mono_ms())
    await settle()
    assert (written, other.done(), stuck.done()) == (["dlq.stuck", "dlq.q"], True, False)
    stuck.cancel()
