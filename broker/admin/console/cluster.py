"""The cluster view: brokers, controllers, and recent events (elections, ISR changes, fenced brokers) from the end of the metadata log.

The view shows what this broker has replicated of the metadata log. It may lag behind the controller; `metadata_offset` says how far it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ottla.broker.admin.console.log_ranges import read_tail
from ottla.broker.app import Broker
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.cluster.record_frames import decode_record
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import iter_records

EVENTS_MAX: Final = 200
_TAIL_RECORDS: Final = 2_000
_TAIL_BYTES: Final = 512 << 10

_TopicIdPartition = tuple[bytes, int]


class BrokerRow(BaseModel):
    """One broker of the cluster, as the console's cluster view shows it."""

    node_id: int
    address: str
    rack: str | None
    state: Literal["serving", "fenced", "shutting down"]
    this: bool = Field(description="whether this is the broker that answers")
    leads: int = Field(description="partitions that it leads")
    replicas: int
    out_of_sync: int = Field(description="its replicas that are not in the ISR")


class ControllerRow(BaseModel):
    """One controller of the cluster, as the console's cluster view shows it."""

    node_id: int
    address: str


class ClusterEvent(BaseModel):
    """One event, such as an election or a smaller ISR, derived from a record of the metadata log."""

    offset: int
    at_ms: int
    kind: Literal["election", "in-sync", "broker", "topic"]
    about: str
    text: str
    bad: bool = Field(description="whether it is a degradation: a lost leader, a smaller ISR, a fenced broker")


class ClusterPage(BaseModel):
    """The data of the console's cluster view: brokers, controllers and recent events, according to the metadata that this broker has
    read."""

    cluster_id: str
    node_id: int
    alone: bool = Field(description="whether this is a standalone node, its own controller")
    decides_here: bool = Field(description="whether the active controller runs in this process")
    metadata_version: int
    metadata_offset: int = Field(description="the end of the metadata log as far as this broker has read it")
    brokers: list[BrokerRow]
    controllers: list[ControllerRow]
    leaderless: int
    out_of_sync: int
    events: list[ClusterEvent] = Field(description="newest first")


def cluster_router(broker: Broker) -> APIRouter:
    """Return the HTTP routes of the console's cluster view of one broker."""
    router = APIRouter()

    @router.get("/cluster")
    async def cluster() -> ClusterPage:
        """Brokers, controllers and recent events, according to this broker's metadata."""
        image = broker.services.topics.image
        log = broker.log_dir.logs.get((CLUSTER_METADATA, 0))
        names = {topic_id: topic.name for topic_id, topic in image.topics.items()}
        happened = [] if log is None else await asyncio.to_thread(events, _end_of(log), names)
        partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
        return ClusterPage(
            cluster_id=broker.services.cluster_id,
            node_id=broker.settings.node_id,
            alone=broker.standalone is not None,
            decides_here=broker.is_controller,
            metadata_version=image.features.get("metadata.version", 0),
            metadata_offset=-1 if log is None else log.high_watermark,
            brokers=_brokers(broker, image),
            controllers=[
                ControllerRow(node_id=each.controller_id, address=_address(each.listeners)) for each in image.controllers.values()
            ],
            leaderless=sum(each.leader == NO_LEADER for each in partitions),
            out_of_sync=sum(len(each.isr) < len(each.replicas) for each in partitions),
            events=happened,
        )

    return router


def _brokers(broker: Broker, image: MetadataImage) -> list[BrokerRow]:
    me = broker.settings.node_id
    rows = {
        node: BrokerRow(
            node_id=node,
            address=_address(each.listeners),
            rack=each.rack,
            state="fenced" if each.fenced else "shutting down" if each.in_controlled_shutdown else "serving",
            this=node == me,
            leads=0,
            replicas=0,
            out_of_sync=0,
        )
        for node, each in sorted(image.brokers.items())
    }
    if me not in rows:
        host, port = broker.address
        rows[me] = BrokerRow(
            node_id=me, address=f"{host}:{port}", rack=None, state="serving", this=True, leads=0, replicas=0, out_of_sync=0
        )
    for partition in (each for topic in image.topics.values() for each in topic.partitions.values()):
        for node in partition.replicas:
            if (row := rows.get(node)) is not None:
                row.replicas += 1
                row.leads += partition.leader == node
                row.out_of_sync += node not in partition.isr
    return list(rows.values())


def _address(listeners: Mapping[str, object]) -> str:
    return ", ".join(f"{name}://{getattr(at, 'host', '')}:{getattr(at, 'port', 0)}" for name, at in listeners.items())


def _end_of(log: PartitionLog) -> bytes:
    try:
        return read_tail(log, _TAIL_RECORDS, _TAIL_BYTES, Isolation.READ_UNCOMMITTED)[0]
    except (Rejected, RecordsError):
        return b""


def events(data: bytes, names: dict[bytes, str]) -> list[ClusterEvent]:
    """Return the events in these batches of the metadata log, newest first, at most EVENTS_MAX. `names` has the names of the existing
    topics by topic id; the names of deleted topics are taken from the batches. Reading stops at a damaged batch."""
    found: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
    describer = _Describer(names)
    try:
        for position, header in split_batches(data):
            if header.is_control:
                continue
            for record in iter_records(data[position : position + header.size_bytes]):
                for kind, about, what, bad in describer.of(decode_record(record.value or b"")[0]):
                    found.appendleft(ClusterEvent(offset=record.offset, at_ms=record.timestamp, kind=kind, about=about, text=what, bad=bad))
    except (RecordsError, ProtocolError):
        pass  # return the events before the damage; the broker itself fails on such a log
    return list(found)


_Description = tuple[Literal["election", "in-sync", "broker", "topic"], str, str, bool]


class _Describer:
    """Describes metadata records as events. It remembers the leader and the ISR of each partition, so that the description of a change can
    also name the previous leader or ISR."""

    def __init__(self, names: dict[bytes, str]) -> None:
        self._names = dict(names)
        self._leaders: dict[_TopicIdPartition, int] = {}
        self._in_sync: dict[_TopicIdPartition, list[int]] = {}

    def of(self, record: MetadataRecord) -> Iterator[_Description]:
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
                yield "topic", record.name, "was created", False
            case RemoveTopicRecord():
                yield "topic", self._names.get(record.topic_id, record.topic_id.hex()), "was deleted", False
            case PartitionRecord():
                self._leaders[record.topic_id, record.partition_id] = record.leader
                self._in_sync[record.topic_id, record.partition_id] = record.isr
            case PartitionChangeRecord():
                yield from self._of_change(record)
            case RegisterBrokerRecord():
                yield "broker", f"broker {record.broker_id}", "registered", False
            case UnregisterBrokerRecord():
                yield "broker", f"broker {record.broker_id}", "was unregistered", True
            case BrokerRegistrationChangeRecord():
                yield from _of_registration(record)

    def _of_change(self, record: PartitionChangeRecord) -> Iterator[_Description]:
        tp = record.topic_id, record.partition_id
        about = f"{self._names.get(record.topic_id, record.topic_id.hex())}-{record.partition_id}"
        before, in_sync = self._leaders.get(tp), self._in_sync.get(tp)
        if record.isr is not None:
            self._in_sync[tp] = record.isr
        if record.leader != LEADER_UNCHANGED:
            self._leaders[tp] = record.leader
            was = "" if before is None or before == record.leader else " after no leader" if before == NO_LEADER else f" after {before}"
            unclean = ", elected uncleanly: committed records may be lost" if record.leader_recovery_state == 1 else ""
            text = f"has no leader{was}" if record.leader == NO_LEADER else f"is led by {record.leader}{was}{unclean}"
            yield "election", about, text, record.leader == NO_LEADER or bool(unclean)
        if record.isr is not None:
            less = in_sync is not None and len(record.isr) < len(in_sync)
            was = "" if in_sync is None else f", after {_nodes(in_sync)}"
            yield "in-sync", about, f"ISR: {_nodes(record.isr)}{was}", less


def _of_registration(record: BrokerRegistrationChangeRecord) -> Iterator[_Description]:
    about = f"broker {record.broker_id}"
    if record.fenced:
        yield "broker", about, "was fenced: its heartbeats stopped" if record.fenced > 0 else "was unfenced", record.fenced > 0
    if record.in_controlled_shutdown:
        yield "broker", about, "began a controlled shutdown", False


def _nodes(nodes: list[int]) -> str:
    return " ".join(map(str, sorted(nodes))) or "empty"
