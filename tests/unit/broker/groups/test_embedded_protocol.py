from __future__ import annotations

import pytest

from ottla.broker.groups.embedded_protocol import (
    assigned_partitions,
    carries_user_data,
    owned_of,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.protocol.errors import ProtocolError
from tests.support.consumer_groups import FakeTopics, subscription, topic_id

TOPICS = FakeTopics(t=3, u=1)
T = topic_id("t")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_subscription_contains_the_owned_partitions(version: int) -> None:
    read = read_subscription(subscription("t", "u", owned={T: frozenset({0, 2})}, version=version))
    assert read.topics == ["t", "u"]
    assert owned_of(read, TOPICS) == {T: frozenset({0, 2})}


def test_a_version_0_subscription_has_no_owned_partitions() -> None:
    assert owned_of(read_subscription(subscription("t", version=0)), TOPICS) == {}


def test_a_newer_version_is_decoded_as_the_newest_known() -> None:
    newer = b"\0\x09" + subscription("t", version=3)[2:] + b"and more"
    assert read_subscription(newer).topics == ["t"]


def test_a_deleted_topic_is_not_owned() -> None:
    assert owned_of(read_subscription(subscription("x", owned={topic_id("x"): frozenset({0})})), TOPICS) == {}


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x05", subscription("t")[:-3]])
def test_an_unreadable_subscription_is_an_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_subscription(data)


@pytest.mark.parametrize("version", [0, 3])
def test_an_assignment_has_the_subscriptions_version(version: int) -> None:
    written = write_assignment({T: frozenset({2, 0}), topic_id("gone"): frozenset({0})}, subscription("t", version=version), TOPICS)
    assert int.from_bytes(written[:2], "big") == version
    assert read_assignment(written, TOPICS) == {T: frozenset({0, 2})}


def test_an_empty_assignment_has_no_bytes() -> None:
    assert read_assignment(b"", TOPICS) == {}


def test_an_assignment_of_another_protocol_type_is_empty() -> None:
    written = write_assignment({T: frozenset({0, 2})}, subscription("t"), TOPICS)
    assert assigned_partitions(written) == [("t", 0), ("t", 2)]
    assert assigned_partitions(b"") == []
    assert assigned_partitions(b"\0\1\xff\xff\xff\xff\xff") == []


def test_only_nonempty_assignor_bytes_are_user_data() -> None:
    written = write_assignment({T: frozenset({0})}, subscription("t"), TOPICS)
    assert not carries_user_data(written)
    assert not carries_user_data(b"")
    assert not carries_user_data(written[:-4] + b"\0\0\0\0")
    assert carries_user_data(written[:-4] + b"\0\0\0\x01x")
    with pytest.raises(ProtocolError):
        carries_user_data(b"all")
