from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.streams.topology import Topology, topology_value
from ottla.protocol.messages import k88_streams_group_heartbeat as k88
from ottla.protocol.messages import k89_streams_group_describe as k89
from ottla.protocol.messages.streams_group import CopartitionGroup, KeyValue, Subtopology, TopicInfo
from ottla.protocol.streams_group_log import StreamsGroupTopologyValue

VALUE = StreamsGroupTopologyValue(
    3,
    [
        Subtopology("1", [], [], [TopicInfo("counts", 0, 0, [KeyValue("a", "b")])], [], [TopicInfo("words", 0, 0, [])]),
        Subtopology("0", ["text", "stop-words"], [], [], ["words"], [], [CopartitionGroup([0, 1], [], [])]),
    ],
)


def test_a_record_has_the_topology_as_the_member_sent_it() -> None:
    sent = k88.Topology(
        3,
        [
            Subtopology("1", [], [], [TopicInfo("counts", 0, 0, [KeyValue("a", "b")])], [], [TopicInfo("words", 0, 0, [])]),
            Subtopology("0", ["text", "stop-words"], [], [], ["words"], [], [CopartitionGroup([0, 1], [], [])]),
        ],
    )
    assert topology_value(sent) == VALUE


def test_the_order_of_subtopologies_makes_no_difference() -> None:
    assert Topology.of(VALUE) == Topology.of(StreamsGroupTopologyValue(3, VALUE.subtopologies[::-1]))
    assert Topology.of(VALUE) != Topology.of(StreamsGroupTopologyValue(3, VALUE.subtopologies[:1]))


def test_the_topics_of_a_topology_are_its_inputs_and_its_changelogs() -> None:
    topology = Topology.of(VALUE)
    assert topology.source_topics == {"text", "stop-words", "words"}
    assert topology.required_topics == {"text", "stop-words", "words", "counts"}


def test_a_topology_is_described_in_sorted_order() -> None:
    assert Topology.of(VALUE).described() == k89.Topology(
        3,
        [
            k89.Subtopology("0", ["stop-words", "text"], ["words"], [], []),
            k89.Subtopology(
                "1",
                [],
                [],
                [TopicInfo("counts", 0, 0, [KeyValue("a", "b")])],
                [TopicInfo("words", 0, 0, [])],
            ),
        ],
    )


def test_a_subtopology_that_occurs_twice_is_rejected() -> None:
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR"):
        Topology.of(StreamsGroupTopologyValue(0, [VALUE.subtopologies[0]] * 2))
