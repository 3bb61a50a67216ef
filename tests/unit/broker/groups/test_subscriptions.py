from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core import limits
from ottla.broker.groups.subscriptions import topics_of, union_of_topics
from tests.support.classic_groups import subscription


def test_only_the_topics_of_a_subscription_are_decoded() -> None:
    assert topics_of(subscription("a", "b")[:-4] + b"user data of a later version") == ["a", "b"]


def test_a_real_consumers_subscription_is_decoded() -> None:
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assert topics_of(RoundRobinPartitionAssignor.metadata({"t"}).encode()) == ["t"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x00\x00\x00",
        b"\xff\xff" + subscription("a")[2:],
        b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x05ab",
        b"\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
    ],
)
def test_bytes_that_are_no_subscription_give_none(bad: bytes) -> None:
    assert topics_of(bad) is None


def test_the_number_of_decoded_topics_is_limited() -> None:
    many = subscription(*["t"] * (limits.SUBSCRIBED_TOPICS - 1))
    assert union_of_topics([many, subscription("u")]) == {"t", "u"}
    assert union_of_topics([many, subscription("u", "v")]) is None
    assert topics_of(subscription(*["t"] * (limits.SUBSCRIBED_TOPICS + 1))) is None


def test_a_list_that_members_have_in_common_counts_once() -> None:
    many = subscription(*["t"] * (limits.SUBSCRIBED_TOPICS - 1))
    assert union_of_topics([many, subscription("u"), many + b"other user data", many]) == {"t", "u"}


def test_one_unreadable_subscription_makes_the_union_unknown() -> None:
    assert union_of_topics([subscription("a"), subscription("b")]) == {"a", "b"}
    assert union_of_topics([subscription("a"), b""]) is None
    assert union_of_topics([]) == frozenset()


@given(st.binary(max_size=64))
def test_arbitrary_bytes_give_topics_or_nothing(data: bytes) -> None:
    topics = topics_of(data)
    assert topics is None or sum(2 + len(topic.encode()) for topic in topics) <= len(data)
