from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.partition_counts import IncorrectlyPartitioned, decide_counts
from ottla.broker.streams.topology import Topology
from ottla.protocol.messages.streams_group import CopartitionGroup, Subtopology, TopicInfo
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue


def subtopology(
    name: str, sources: str = "", *, inner: str = "", sinks: str = "", changelogs: str = "", joins: bool = False, fixed: int = 0
) -> Subtopology:
    """Return a subtopology; each letter of an argument is a topic. With `joins`, its inputs are one copartition group."""
    group = CopartitionGroup(list(range(len(sources))), [], list(range(len(inner))))
    return Subtopology(
        name,
        list(sources),
        [],
        [TopicInfo(topic, 0, 0, []) for topic in changelogs],
        list(sinks),
        [TopicInfo(topic, fixed, 0, []) for topic in inner],
        [group] if joins else [],
    )


def counts(*subtopologies: Subtopology, **topics: int) -> dict[str, int]:
    return decide_counts(Topology.of(StreamsGroupTopologyValue(0, list(subtopologies))), topics.get)


def test_a_repartition_topic_has_as_many_partitions_as_the_greatest_input() -> None:
    assert counts(subtopology("0", "ab", sinks="r"), subtopology("1", inner="r", sinks="s"), subtopology("2", inner="s"), a=2, b=5) == {
        "r": 5,
        "s": 5,
    }


def test_a_changelog_has_a_partition_for_every_task() -> None:
    assert counts(subtopology("0", "ab", changelogs="x"), a=2, b=5) == {"x": 5}


def test_a_count_that_the_topology_sets_is_kept() -> None:
    assert counts(subtopology("0", "a", sinks="r"), subtopology("1", inner="r", fixed=7), a=2) == {"r": 7}


def test_a_repartition_topic_that_is_joined_with_a_topic_of_the_user_has_its_count() -> None:
    assert counts(subtopology("0", "a", sinks="r"), subtopology("1", "b", inner="r", joins=True), a=2, b=5) == {"r": 5}


def test_topics_of_the_user_that_are_joined_must_have_equal_counts() -> None:
    with pytest.raises(IncorrectlyPartitioned, match=r"do not have the same number of partitions: \[\{a=2, b=3\}\]"):
        counts(subtopology("0", "ab", joins=True), a=2, b=3)


def test_a_set_count_must_equal_that_of_the_joined_topic() -> None:
    with pytest.raises(IncorrectlyPartitioned, match=r"\[7\] of repartition topic \[r\] doesn't match number of partitions \[5\]"):
        counts(subtopology("0", "a", sinks="r"), subtopology("1", "b", inner="r", joins=True, fixed=7), a=2, b=5)


def test_a_chain_of_repartition_topics_has_the_count_of_its_beginning_in_any_order() -> None:
    chain = [subtopology("0", "a", sinks="r"), *(subtopology(str(n), inner=chr(114 + n - 1), sinks=chr(114 + n)) for n in range(1, 9))]
    expected = {chr(114 + n): 3 for n in range(9)}
    assert counts(*chain, a=3) == counts(*chain[::-1], a=3) == expected


def test_a_loop_of_repartition_topics_is_rejected() -> None:
    with pytest.raises(Rejected, match="may be loops"):
        counts(subtopology("0", "a"), subtopology("1", inner="r", sinks="s"), subtopology("2", inner="s", sinks="r"), a=1)


def test_a_repartition_topic_that_nothing_writes_is_rejected() -> None:
    with pytest.raises(Rejected, match="never used as a sink"):
        counts(subtopology("0", "a", inner="r"), a=1)


def test_a_subtopology_without_inputs_is_rejected() -> None:
    with pytest.raises(Rejected, match="No source topics found for subtopology 0"):
        counts(subtopology("0", changelogs="x"))


def test_an_index_without_a_topic_is_rejected() -> None:
    broken = Subtopology("0", ["a"], [], [], [], [], [CopartitionGroup([1], [], [])])
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR"):
        counts(broken, a=1)
