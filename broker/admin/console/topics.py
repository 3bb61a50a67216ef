"""The topics view: topics and partitions, their leaders, replicas and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from ottla.broker.app import Broker
from ottla.broker.cluster.image import PartitionRegistration, ResourceType, TopicImage
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.runtime.replicas.partition import Partition

TOPICS_MAX: Final = 500
PARTITIONS_MAX: Final = 500


class TopicRow(BaseModel):
    """One topic in the console's list of topics."""

    name: str
    internal: bool = Field(description="whether it is an internal topic of the broker")
    partitions: int
    here: int = Field(description="partitions with a replica on this broker; sizes and offsets cover only these")
    offsets: int = Field(description="offsets between the starts and the ends of the logs here, including transaction markers")
    size_bytes: int
    out_of_sync: int = Field(description="partitions whose ISR is smaller than their replica set")
    leaderless: int


class TopicRows(BaseModel):
    """Topics in order of name; `left_out` is the number of matching topics that do not fit in the response."""

    topics: list[TopicRow]
    left_out: int


class LogView(BaseModel):
    """The log of a replica on this broker. Offsets: log start ≤ last stable ≤ high watermark ≤ end."""

    start: int
    last_stable: int
    high_watermark: int
    end: int
    size_bytes: int
    segments: int
    leads: bool


class PartitionView(BaseModel):
    """One partition: its metadata, and its log if this broker has a replica of it."""

    index: int
    leader: int = Field(description="-1: the partition has no leader")
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    log: LogView | None


class TopicView(BaseModel):
    """One topic with its partitions; `left_out` is the number of partitions that do not fit in the response."""

    name: str
    topic_id: str
    internal: bool
    settings: dict[str, str] = Field(description="settings of the topic itself, without defaults")
    partitions: list[PartitionView]
    left_out: int


def topics_router(broker: Broker) -> APIRouter:
    """Return the HTTP routes of the console's topics view of one broker."""
    router = APIRouter()

    @router.get("/topics")
    async def topics(
        contains: Annotated[str, Query(description="only topics whose names contain this", max_length=249)] = "",
        internal: Annotated[bool, Query(description="include internal topics")] = False,
    ) -> TopicRows:
        """All topics in the cluster's metadata, as far as this broker has read it."""
        found = [topic for topic in broker.services.topics.topics() if contains in topic.name and (internal or not topic.is_internal)]
        return TopicRows(topics=[_row(broker, topic) for topic in found[:TOPICS_MAX]], left_out=max(0, len(found) - TOPICS_MAX))

    @router.get("/topic")
    async def topic(name: str) -> TopicView:
        """One topic; 404 if there is no topic of that name."""
        found = broker.services.topics.topic(name)
        if found is None:
            raise HTTPException(404, f"there is no topic {name!r}")
        indexes = sorted(found.partitions)
        return TopicView(
            name=name,
            topic_id=found.topic_id.hex(),
            internal=found.is_internal,
            settings=dict(broker.services.topics.configs(ResourceType.TOPIC, name)),
            partitions=[_partition(broker, name, index, found.partitions[index]) for index in indexes[:PARTITIONS_MAX]],
            left_out=max(0, len(indexes) - PARTITIONS_MAX),
        )

    return router


def partition_of(broker: Broker, topic: str, index: int) -> Partition | None:
    """Return this broker's replica of the partition, None if it has none."""
    found = broker.services.partitions.by_name(topic)
    return None if found is None else found.partitions.get(index)


def _row(broker: Broker, topic: TopicImage) -> TopicRow:
    logs = [partition.log for partition in _here(broker, topic.name)]
    partitions = topic.partitions.values()
    return TopicRow(
        name=topic.name,
        internal=topic.is_internal,
        partitions=len(topic.partitions),
        here=len(logs),
        offsets=sum(log.log_end_offset - log.log_start_offset for log in logs),
        size_bytes=sum(log.size_bytes for log in logs),
        out_of_sync=sum(len(each.isr) < len(each.replicas) for each in partitions),
        leaderless=sum(each.leader == NO_LEADER for each in partitions),
    )


def _here(broker: Broker, topic: str) -> Iterator[Partition]:
    found = broker.services.partitions.by_name(topic)
    return iter(()) if found is None else iter(found.partitions.values())


def _partition(broker: Broker, topic: str, index: int, known: PartitionRegistration) -> PartitionView:
    here = partition_of(broker, topic, index)
    return PartitionView(
        index=index,
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        replicas=list(known.replicas),
        in_sync=sorted(known.isr),
        log=None if here is None else _log(here),
    )


def _log(partition: Partition) -> LogView:
    log = partition.log
    return LogView(
        start=log.log_start_offset,
        last_stable=log.last_stable_offset,
        high_watermark=log.high_watermark,
        end=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        leads=partition.leads,
    )
