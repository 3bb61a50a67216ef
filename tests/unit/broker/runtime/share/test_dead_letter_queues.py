"""Dead letter queues over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k84_read_share_group_state import PartitionData, ReadShareGroupStateRequest, ReadStateData
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import REJECT, ShareMember, acknowledged, acquired, configure, dead_letters, initialize
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
