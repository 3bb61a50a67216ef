from __future__ import annotations

import time

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.topics_view import TopicInfo, check_regex, hash_of, matcher_of
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import topic_id


def test_an_expression_has_to_match_the_whole_name() -> None:
    names = ["t", "tt", "at", "u.1"]
    assert list(filter(matcher_of("t")[0], names)) == ["t"]
    assert list(filter(matcher_of("t.*|u\\..")[0], names)) == ["t", "tt", "u.1"]


@pytest.mark.parametrize("regex", ["(", "a{1000}{1000}", "(?=x)", "\\1", "[z-a]"])
def test_an_expression_that_re2_does_not_support_is_refused(regex: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert regex in refused.value.message


def test_matching_takes_linear_time_for_any_expression() -> None:
    began = time.monotonic()
    assert not matcher_of("(a+)+b")[0]("a" * 249)
    assert time.monotonic() - began < 30  # backtracking would take for ever


def test_the_hash_depends_on_name_id_and_partitions_and_not_on_order() -> None:
    t, u = TopicInfo("t", topic_id("t"), 1), TopicInfo("u", topic_id("u"), 1)
    hashes = {hash_of(topics) for topics in ([], [t], [u], [t, u], [TopicInfo("t", topic_id("t"), 2)], [TopicInfo("t", topic_id("x"), 1)])}
    assert len(hashes) == 6
    assert hash_of([t, u]) == hash_of([u, t])
    assert hash_of([]) == 0
    assert all(-(2**63) <= one < 2**63 for one in hashes)


TOPIC_ID = bytes.fromhex("01020304050607081112131415161718")
KAFKAS_HASHES = {
    ("t", 1, None): -6082944988114214592,
    ("t", 2, None): -5373959217308720895,
    ("orders", 3, None): 8632239608810869865,
    ("big", 500, None): -4458472143926386130,
    ("a" * 249, 1, None): -8462870576286000982,
    ("t", 2, "r1"): 348277483415275123,
    ("t", 1, "r\u00fc"): 7313087946952505808,
}
"""By name, partitions and rack, as computeGroupHash of Kafka 4.3.1 gives them."""


@pytest.mark.parametrize("facts", KAFKAS_HASHES, ids=lambda facts: f"{facts[0][:9]}-{facts[1]}-{facts[2]}")
def test_the_hash_is_kafkas(facts: tuple[str, int, str | None]) -> None:
    name, partitions, rack = facts
    assert hash_of([TopicInfo(name, TOPIC_ID, partitions, () if rack is None else ((rack,),) * partitions)]) == KAFKAS_HASHES[facts]


def test_the_hash_of_several_topics_is_kafkas() -> None:
    topics = [TopicInfo(name, TOPIC_ID, count) for name, count in (("t", 2), ("orders", 3), ("big", 500))]
    assert hash_of(topics) == -309124940439903752
