"""Describe the cluster: brokers, topics, and the leader, replicas and in-sync replicas of each partition.

Versions 0-13; flexible from 9. In version 0 an empty `topics` asks for all topics; from 1 on, null asks for all and an empty list for
none.

Changes by version:
* 1: racks, the controller, internal topics. 2: `cluster_id`. 3: `throttle_time_ms`. 4: `allow_auto_topic_creation`.
* 5: `offline_replicas`. 7: `leader_epoch`. 8: authorized operations (those of the cluster only until 10).
* 10: `topic_id`; 12: topics may be asked for by id, with a null name. 13: a top-level `error_code`.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, boolean, int16, int32, string, uuid, wire_struct


@wire_struct
class MetadataRequestTopic:
    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


@wire_struct
class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@wire_struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


@wire_struct
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+")


@wire_struct
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-0x80000000)


@wire_struct
class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-0x80000000)
    error_code: int = int16("13+")
