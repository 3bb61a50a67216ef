from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.internal_topics import ConfiguredTopology, InternalTopic, Status, configure
from ottla.broker.streams.topology import Topology
from ottla.protocol.messages import k89_streams_group_describe as k89
from ottla.protocol.messages.streams_group import KeyValue, Subtopology, TopicInfo
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue

WORD_COUNT = (
    Subtopology("0", ["text"], [], [], ["words"], [], []),
    Subtopology("1", [], [], [TopicInfo("counts", 0, 2, [KeyValue("a", "b")])], [], [TopicInfo("words", 0, 0, [])], []),
)


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    return configure(Topology.of(StreamsGroupTopologyValue(5, list(subtopologies))), 9, topics.get)


def test_a_topology_whose_topics_exist_is_ready() -> None:
    found = configured(*WORD_COUNT, text=3, words=3, counts=3)
    assert (found.is_ready, found.problem, found.epoch, found.metadata_hash) == (True, None, 5, 9)
    assert found.subtopologies is not None
    assert {name: (one.number_of_tasks, one.is_stateful) for name, one in found.subtopologies.items()} == {"0": (3, False), "1": (3, True)}
    assert found.internal_topics_to_create == {}


def test_missing_internal_topics_are_to_be_created() -> None:
    found = configured(*WORD_COUNT, text=3)
    assert found.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts, words")
    assert found.internal_topics_to_create == {
        "words": InternalTopic("words", 3, 0, {}),
        "counts": InternalTopic("counts", 3, 2, {"a": "b"}),
    }
    assert not found.is_ready


def test_a_message_names_three_topics_at_most() -> None:
    found = configured(Subtopology("0", ["text"], [], [TopicInfo(f"t{i}", 0, 0, []) for i in range(5)], [], [], []), text=1)
    assert found.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: t4, t0, t1 and 2 additional topics")


def test_missing_source_topics_are_named() -> None:
    found = configured(Subtopology("0", ["b", "a"], [], [], [], [], []))
    assert found.problem == (Status.MISSING_SOURCE_TOPICS, "Source topics a, b are missing.")
    assert (found.subtopologies, found.internal_topics_to_create) == (None, {})


def test_an_internal_topic_with_another_number_of_partitions_is_named() -> None:
    found = configured(*WORD_COUNT, text=3, words=3, counts=2)
    assert found.problem == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic counts has different number of partitions: expected 3, found 2",
    )


def test_a_configured_topology_is_described_with_the_decided_counts() -> None:
    described = configured(*WORD_COUNT, text=3, words=3, counts=3).described()
    assert described.subtopologies is not None
    assert described.subtopologies[1] == k89.Subtopology(
        "1", [], [], [TopicInfo("counts", 3, 2, [KeyValue("a", "b")])], [TopicInfo("words", 3, 0, [])]
    )


def test_a_topology_with_too_many_tasks_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_TASKS", 6)
    assert configured(*WORD_COUNT, text=3, words=3, counts=3).is_ready
    with pytest.raises(Rejected, match="has 8 tasks, more than the maximum of 6"):
        configured(*WORD_COUNT, text=4, words=4, counts=4)


def test_a_negative_number_of_partitions_is_rejected() -> None:
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR"):
        configured(Subtopology("0", ["text"], [], [], [], [TopicInfo("words", -1, 0, [])], []), text=1)
