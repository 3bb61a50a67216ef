"""The structs that StreamsGroupHeartbeat (88), StreamsGroupDescribe (89), StreamsGroupTopologyDescriptionUpdate (93) and the records of
streams groups have in common.
"""

from __future__ import annotations

from ottla.protocol.schema import array, int8, int16, int32, int64, string, struct, uint16, wire_struct


@wire_struct
class KeyValue:
    key: str = string()
    value: str = string()


@wire_struct
class TopicInfo:
    """An internal topic of a Kafka Streams application. If `partitions` or `replication_factor` is 0, the coordinator chooses the
    number."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


@wire_struct
class CopartitionGroup:
    """Topics that must have the same number of partitions, each as an index into one of the topic lists of their subtopology."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@wire_struct
class Subtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@wire_struct
class Endpoint:
    host: str = string()
    port: int = uint16()


@wire_struct
class TaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@wire_struct
class TaskOffset:
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@wire_struct
class TopologyDescriptionNode:
    """A node of a topology's description: a source (1), processor (2) or sink (3)."""

    name: str = string()
    node_type: int = int8()
    source_topics: list[str] = array(string)
    sink_topic: str | None = string(nullable="0+", default=None)
    stores: list[str] = array(string)
    successors: list[str] = array(string)


@wire_struct
class TopologyDescriptionSubtopology:
    subtopology_id: str = string()
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode)


@wire_struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode)


@wire_struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)
