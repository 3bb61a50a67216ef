"""The structs that Kafka declares alike in StreamsGroupHeartbeat (88), StreamsGroupDescribe (89) and the records of streams groups."""

from __future__ import annotations

from ottla.protocol.schema import array, int16, int32, int64, string, uint16, wire_struct


@wire_struct
class KeyValue:
    key: str = string()
    value: str = string()


@wire_struct
class TopicInfo:
    """An internal topic. 0 partitions or replicas: the coordinator's choice."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


@wire_struct
class CopartitionGroup:
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

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
