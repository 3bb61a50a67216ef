from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import ACCEPT, REJECT, RELEASE, RENEW, Given, ShareMember, acknowledged, acquired, configure, initialize
from tests.support.topic_calls import create, produce


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    create(client, "t", partitions=2)
    initialize(client, "t", 0, 1)
    configure(client, "g", share__auto__offset__reset="earliest")
    produce(client, "t", *(b"%d" % index for index in range(10)))


@pytest.fixture
def member(client: Client) -> ShareMember:
    """A member of share group "g" that has acquired the offsets 0 to 9."""
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 9, 1)]
    return member


@pytest.mark.parametrize("version", [1, 2])
def test_accepted_and_rejected_records_are_not_delivered_again_and_released_ones_are(client: Client, version: int) -> None:
    member = ShareMember(client, "m", version=version)
    assert acquired(member.fetch()) == [(0, 9, 1)]
    assert acknowledged(member.acknowledge((0, 3, [ACCEPT]), (4, 6, [RELEASE, REJECT, RELEASE]), (7, 9, [ACCEPT]))) == [0]
    assert acquired(member.fetch()) == [(4, 4, 2), (6, 6, 2)]


def test_a_gap_is_archived_like_a_rejected_record(member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((0, 9, [0, *[RELEASE] * 9]))) == [0]
    assert acquired(member.fetch()) == [(1, 9, 2)]


def test_the_response_has_the_lock_duration_of_the_group(member: ShareMember) -> None:
    configure(member.client, "g", share__record__lock__duration__ms="20000")
    assert member.acknowledge((0, 9, [ACCEPT])).acquisition_lock_timeout_ms == 20_000


def test_acknowledging_twice_is_an_invalid_record_state(member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((0, 4, [ACCEPT]))) == [0]
    assert acknowledged(member.acknowledge((3, 6, [ACCEPT]))) == [0]  # offsets below the start offset are passed over, as in Kafka
    assert acknowledged(member.acknowledge((8, 8, [ACCEPT]))) == [0]
    assert acknowledged(member.acknowledge((7, 8, [ACCEPT]))) == [ErrorCode.INVALID_RECORD_STATE]


def test_a_refused_acknowledgement_changes_no_record(member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((5, 5, [ACCEPT]))) == [0]
    assert acknowledged(member.acknowledge((0, 5, [RELEASE]))) == [ErrorCode.INVALID_RECORD_STATE]
    assert acquired(member.fetch()) == []
    assert acknowledged(member.acknowledge((0, 4, [ACCEPT]))) == [0]


def test_member_cannot_acknowledge_another_members_records(member: ShareMember, broker: RunningBroker) -> None:
    with broker.client() as client:
        other = ShareMember(client, "n")
        other.fetch()
        assert acknowledged(other.acknowledge((0, 9, [ACCEPT]))) == [ErrorCode.INVALID_RECORD_STATE]


@pytest.mark.parametrize(
    "given",
    [
        [(1, 0, [ACCEPT])],
        [(4, 5, [ACCEPT]), (2, 3, [ACCEPT])],
        [(0, 0, [])],
        [(0, 3, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(0, 10, [ACCEPT])],
        [(10, 12, [ACCEPT])],
    ],
)
def test_impossible_batches_are_invalid(member: ShareMember, given: list[Given]) -> None:
    assert acknowledged(member.acknowledge(*given)) == [ErrorCode.INVALID_REQUEST]


def test_version_1_has_no_renewal(client: Client) -> None:
    member = ShareMember(client, "m", version=1)
    member.fetch()
    assert acknowledged(member.acknowledge((0, 0, [RENEW]))) == [ErrorCode.INVALID_REQUEST]


def test_a_renewal_can_be_disabled_for_the_group(member: ShareMember) -> None:
    configure(member.client, "g", share__renew__acknowledge__enable="false")
    assert acknowledged(member.acknowledge((0, 9, [RENEW]), is_renew_ack=True)) == [ErrorCode.INVALID_RECORD_STATE]
    configure(member.client, "g", share__renew__acknowledge__enable="true")
    assert acknowledged(member.acknowledge((0, 9, [RENEW]), is_renew_ack=True)) == [0]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"share_session_epoch": 0}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ({"share_session_epoch": 9}, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ({"member_id": "unknown"}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_outside_the_session_is_refused(member: ShareMember, changes: dict[str, Any], error: ErrorCode) -> None:
    assert member.acknowledge((0, 0, [ACCEPT]), **changes).error_code == error


def test_the_last_acknowledgement_of_a_session_releases_the_rest(member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((0, 4, [ACCEPT]), share_session_epoch=-1)) == [0]
    assert acquired(ShareMember(member.client, "n").fetch()) == [(5, 9, 2)]


def test_unknown_topics_and_partitions_have_their_errors(member: ShareMember) -> None:
    batch = AcknowledgementBatch(0, 0, [ACCEPT])
    topics = [
        ShareTopic(member.topic_id, [SharePartition(9, [batch]), SharePartition(1, [batch])]),
        ShareTopic(bytes(15) + b"x", [SharePartition(0, [batch])]),
    ]
    response = member.acknowledge(topics=topics)
    assert sorted(acknowledged(response)) == [3, 3, ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_partition_without_acknowledgements_is_answered_with_others_only(member: ShareMember) -> None:
    nothing = SharePartition(1, [])
    alone = member.acknowledge(topics=[ShareTopic(member.topic_id, [nothing])])
    assert acknowledged(alone) == []
    both = [nothing, SharePartition(0, [AcknowledgementBatch(0, 9, [ACCEPT])])]
    assert acknowledged(member.acknowledge(topics=[ShareTopic(member.topic_id, both)])) == [0, 0]
