"""Fault rules for share consumers and streams groups, on a broker and on a gateway before a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import crc_ok, read_header
from tests.support import streams_group_calls
from tests.support.fault_carriers import FaultyBroker, GatewayBeforeBroker
from tests.support.group_calls import wait_until
from tests.support.share_calls import ACCEPT, ShareMember, acknowledged, acquired, initialize
from tests.support.topic_calls import produce

NOT_LEADER, NOT_COORDINATOR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR


@pytest.fixture(params=[FaultyBroker, GatewayBeforeBroker])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FaultyBroker]:
    with request.param(tmp_path / "data") as running:
        yield running


@pytest.fixture
def client(broker: FaultyBroker) -> Iterator[Client]:
    """A connection to a broker. Topic "t" has one record in partition 0, which share group "g" reads from its beginning."""
    with broker.client() as connected:
        streams_group_calls.prepare(connected)
        initialize(connected, "t", start_offset=0)
        produce(connected, "t", b"job")
        yield connected


def test_an_acceptance_whose_response_is_lost_counts(broker: FaultyBroker, client: Client) -> None:
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 0, 1)]
    broker.faults.add("drop-ack:api=ShareAcknowledge,times=1")
    with pytest.raises(ConnectionError):
        member.acknowledge((0, 0, [ACCEPT]))
    broker.faults.assert_consumed()
    with broker.client() as again:
        assert acquired(ShareMember(again, "n").fetch()) == []


def test_an_acknowledgement_that_is_refused_leaves_the_record_to_its_member(broker: FaultyBroker, client: Client) -> None:
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 0, 1)]
    broker.faults.add("error:api=ShareAcknowledge,code=NOT_LEADER_OR_FOLLOWER,times=1")
    refused = member.acknowledge((0, 0, [ACCEPT]))
    assert (refused.error_code, refused.responses[0].partitions[0].error_code) == (0, NOT_LEADER)
    assert acknowledged(member.acknowledge((0, 0, [ACCEPT]))) == [0]


def test_a_session_error_of_an_acknowledgement_is_at_the_top_level_only(broker: FaultyBroker, client: Client) -> None:
    member = ShareMember(client, "m")
    member.fetch()
    broker.faults.add("error:api=ShareAcknowledge,code=SHARE_SESSION_NOT_FOUND,times=1")
    refused = member.acknowledge((0, 0, [ACCEPT]))
    assert (refused.error_code, refused.responses) == (ErrorCode.SHARE_SESSION_NOT_FOUND, [])


def test_records_whose_delivery_is_lost_are_delivered_again(broker: FaultyBroker, client: Client) -> None:
    broker.faults.add("drop-ack:api=ShareFetch,times=1")
    with pytest.raises(ConnectionError):
        ShareMember(client, "m").fetch()
    with broker.client() as again:
        member, found = ShareMember(again, "n"), []

        def is_delivered() -> bool:
            found.extend(acquired(member.fetch()))
            return bool(found)

        wait_until(is_delivered, "the broker knows that the connection is closed")
        assert found == [(0, 0, 2)]


def test_a_corrupt_delivery_fails_the_members_check(broker: FaultyBroker, client: Client) -> None:
    member = ShareMember(client, "m")
    broker.faults.add("corrupt:api=ShareFetch,times=1")
    (topic,) = member.fetch().responses
    records = bytes(topic.partitions[0].records)
    assert not crc_ok(records, read_header(records))
    broker.faults.assert_consumed()


def test_a_refused_heartbeat_of_a_streams_group_changes_nothing_and_one_that_is_handled_does(broker: FaultyBroker, client: Client) -> None:
    broker.faults.add("error:api=StreamsGroupHeartbeat,code=NOT_COORDINATOR,times=1")
    assert streams_group_calls.beat(client).error_code == NOT_COORDINATOR
    assert streams_group_calls.described(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    broker.faults.add("error-after:api=StreamsGroupHeartbeat,code=NOT_COORDINATOR,times=1")
    assert streams_group_calls.beat(client).error_code == NOT_COORDINATOR
    assert [member.member_id for member in streams_group_calls.described(client).members] == ["m"]
