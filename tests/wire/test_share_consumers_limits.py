"""Authorization and quotas of share consumers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.clock import MovableClock
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.access import GUARDED, acl, allow, ann, bob
from tests.support.quota_calls import Target, set_quota
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import ACCEPT, ShareMember, acknowledged, acquired, initialize
from tests.support.topic_calls import create, produce

CLIENT: Target = (("client-id", "test"),)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with an authorizer, and a topic with one record for share group "g"."""
    with RunningBroker(tmp_path / "data", GUARDED) as broker:
        with bob(broker) as client:
            _prepare(client, b"a")
        yield broker


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker whose clock the test advances."""
    with RunningBroker(tmp_path / "data", clock=MovableClock()) as broker:
        yield broker


def _prepare(client: Client, *values: bytes) -> None:
    create(client, "t")
    initialize(client, "t", start_offset=0)
    for value in values:
        produce(client, "t", value)


def test_a_share_consumer_needs_the_right_to_read_the_group_and_the_topic(guarded: RunningBroker) -> None:
    with bob(guarded) as admin, ann(guarded) as client:
        member = ShareMember(admin, "m")
        member.client = client
        assert member.fetch().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert member.acknowledge((0, 0, [ACCEPT])).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        allow(admin, acl(Resource.GROUP, "g", Operation.READ))
        (topic,) = member.fetch().responses
        assert [(part.error_code, bytes(part.records)) for part in topic.partitions] == [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")]
        assert acknowledged(member.acknowledge((0, 0, [ACCEPT]))) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        allow(admin, acl(Resource.TOPIC, "t", Operation.READ))
        assert acquired(member.fetch()) == [(0, 0, 1)]
        assert acknowledged(member.acknowledge((0, 0, [ACCEPT]))) == [0]


def test_a_share_consumer_above_its_quota_gets_no_records_and_its_acknowledgements_count(timed: RunningBroker) -> None:
    with timed.client("admin") as admin, timed.client() as client:
        _prepare(admin, *[bytes(20_000)] * 4)
        member = ShareMember(client, "m")
        set_quota(admin, CLIENT, consumer_byte_rate=2_500.0)
        first = member.fetch(max_records=1)
        assert (acquired(first), first.throttle_time_ms) == ([(0, 0, 1)], 0)
        second = member.fetch([(0, 0, [ACCEPT])], max_records=1)
        (topic,) = second.responses
        (part,) = topic.partitions
        assert second.throttle_time_ms > 0
        assert (bytes(part.records), part.acquired_records, part.acknowledge_error_code) == (b"", [], 0)
        timed.clock.advance(second.throttle_time_ms / 1000 + 30)
        third = member.fetch(max_records=1)
        assert (acquired(third), third.throttle_time_ms) == ([(1, 1, 2)], 0), "its lock has expired; the accepted record is gone"


def test_acknowledgements_are_charged_to_the_request_quota(timed: RunningBroker) -> None:
    with timed.client("admin") as admin, timed.client() as client:
        _prepare(admin, b"a")
        member = ShareMember(client, "m")
        member.fetch()
        set_quota(admin, CLIENT, request_percentage=0.0001)
        assert member.acknowledge((0, 0, [ACCEPT])).throttle_time_ms > 0
