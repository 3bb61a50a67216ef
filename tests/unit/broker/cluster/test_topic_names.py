from __future__ import annotations

from ottla.broker.cluster.topic_names import collision_key, has_collision_chars, is_internal


def test_names_collide_exactly_when_they_differ_in_dots_and_underscores() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("ab")
    assert not has_collision_chars("a-b")


def test_internal_topics_are_those_of_groups_and_transactions() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
