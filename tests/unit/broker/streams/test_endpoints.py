from __future__ import annotations

from ottla.broker.streams.endpoints import input_partitions
from ottla.broker.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from ottla.protocol.messages.k88_streams_group_heartbeat import TopicPartition

SUBTOPOLOGIES = {
    "0": ConfiguredSubtopology(4, frozenset({"a", "b"})),
    "1": ConfiguredSubtopology(4, repartition_source_topics={"r": InternalTopic("r", 4, 0, {})}),
}


def test_a_task_reads_its_partition_of_every_input() -> None:
    tasks = {"1": frozenset({0}), "0": frozenset({3, 1})}
    assert input_partitions(tasks, SUBTOPOLOGIES, dict.fromkeys("abr", 4).get) == [
        TopicPartition("a", [1, 3]),
        TopicPartition("b", [1, 3]),
        TopicPartition("r", [0]),
    ]


def test_a_topic_with_fewer_partitions_is_listed_with_those_that_it_has() -> None:
    assert input_partitions({"0": frozenset({1, 2, 3})}, SUBTOPOLOGIES, {"a": 4, "b": 2}.get) == [
        TopicPartition("a", [1, 2, 3]),
        TopicPartition("b", [1]),
    ]
    assert input_partitions({"0": frozenset({2, 3})}, SUBTOPOLOGIES, {"a": 4, "b": 2}.get) == [TopicPartition("a", [2, 3])]
    assert input_partitions({"0": frozenset({2, 3})}, SUBTOPOLOGIES, {"a": 4, "b": 2}.get, only_existing=False) == [
        TopicPartition("a", [2, 3]),
        TopicPartition("b", [2, 3]),
    ]


def test_a_deleted_topic_is_left_out() -> None:
    assert input_partitions({"0": frozenset({0})}, SUBTOPOLOGIES, {"a": 1}.get) == [TopicPartition("a", [0])]
