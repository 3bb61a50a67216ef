from __future__ import annotations

import pytest

from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import LiveCatalog, code_of


@pytest.fixture
def live() -> LiveCatalog:
    live = LiveCatalog()
    live.create(NewTopic("a"), NewTopic("b"), NewTopic("__consumer_offsets"))
    return live


def id_of(live: LiveCatalog, name: str) -> bytes:
    topic = live.catalog.topic(name)
    assert topic is not None
    return topic.topic_id


def codes(live: LiveCatalog, *refs: TopicRef) -> list[ErrorCode]:
    return [code_of(deleted.error) for deleted in live.run(delete_topics(live.catalog, refs))]


def test_deletion_by_name_or_id_is_answered_with_both(live: LiveCatalog) -> None:
    a, b = id_of(live, "a"), id_of(live, "b")
    answers = live.run(delete_topics(live.catalog, [TopicRef("a"), TopicRef(None, b)]))
    assert answers == [DeletedTopic("a", a), DeletedTopic("b", b)]
    assert [topic.name for topic in live.catalog.topics()] == ["__consumer_offsets"]


def test_unknown_names_and_ids_have_different_errors(live: LiveCatalog) -> None:
    assert codes(live, TopicRef("no"), TopicRef(None, b"\x09" * 16)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_both_or_neither_of_name_and_id_is_an_invalid_request(live: LiveCatalog) -> None:
    assert codes(live, TopicRef("a", id_of(live, "a")), TopicRef()) == [ErrorCode.INVALID_REQUEST] * 2
    assert live.catalog.topic("a") is not None


def test_a_malformed_reference_has_an_error_each_time(live: LiveCatalog) -> None:
    both = TopicRef("a", id_of(live, "a"))
    assert codes(live, TopicRef(), both, TopicRef(), both, TopicRef("b")) == [ErrorCode.INVALID_REQUEST] * 4 + [ErrorCode.NONE]


def test_a_name_or_id_given_twice_is_refused_and_nothing_deleted(live: LiveCatalog) -> None:
    by_id = TopicRef(None, id_of(live, "b"))
    assert codes(live, TopicRef("a"), TopicRef("a"), by_id, by_id) == [ErrorCode.INVALID_REQUEST] * 2
    assert len(live.catalog) == 3


@pytest.mark.parametrize("by_name_first", [True, False])
def test_a_topic_requested_by_name_and_by_id_is_refused_once(live: LiveCatalog, by_name_first: bool) -> None:
    topic_id = id_of(live, "a")
    refs = [TopicRef("a"), TopicRef(None, topic_id)]
    (answer,) = live.run(delete_topics(live.catalog, refs if by_name_first else refs[::-1]))
    assert (answer.name, answer.topic_id, code_of(answer.error)) == ("a", topic_id, ErrorCode.INVALID_REQUEST)
    assert live.catalog.topic("a") is not None


def test_an_id_is_answered_even_if_its_name_is_duplicate(live: LiveCatalog) -> None:
    assert codes(live, TopicRef("a"), TopicRef("a"), TopicRef(None, id_of(live, "a"))) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert live.catalog.topic("a") is None


def test_an_internal_topic_cannot_be_deleted(live: LiveCatalog) -> None:
    assert codes(live, TopicRef("__consumer_offsets")) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
