"""A controller in memory: it serves its metadata log, and decides by KRaft's rules as far as brokers need it.

Sources: KAFKA ClusterControlManager, BrokerHeartbeatManager, ReplicationControlManager, ProducerIdControlManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.broker.cluster.features import TRANSACTION_VERSION
from ottla.broker.cluster.image import MIGRATING, MetadataImage, PartitionRegistration
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.protocol.codec import Request, decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages import k56_alter_partition as k56
from ottla.protocol.messages import k73_assign_replicas_to_dirs as k73
from ottla.protocol.messages.k01_fetch import FetchRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.messages.k59_fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.schema import Message
from tests.support.answering_node import ScriptedConnection, ScriptedNode
from tests.support.metadata_images import made_of
from tests.support.metadata_quorum import MemoryQuorum

CONTROLLER = 3000
SESSION_MS = 9_000
PRODUCER_IDS = 1_000


@dataclass
class BrokerSession:
    """A broker as its heartbeats describe it: its metadata offset, its controlled shutdown, and the timer of its session."""

    offset: int = -1
    shut_down_offset: int | None = None
    timer: TimerHandle | None = None


class KraftController:
    """A controller whose log is committed at once. `image` is what it has decided; `requests` are the brokers' requests, except Fetch."""

    def __init__(self, clock: Clock, timers: Timers, random: Random) -> None:
        self.quorum = MemoryQuorum(clock, timers, size=1, first=CONTROLLER)
        self.image = MetadataImage()
        self.requests: list[Message] = []
        self.node: ScriptedNode
        self._clock = clock
        self._timers = timers
        self._random = random
        self._sessions: dict[int, BrokerSession] = {}
        self.quorum.elect(CONTROLLER)
        self.quorum.commit()
        self.image = self.quorum.image(self._end)
        self.write(FeatureLevelRecord(TRANSACTION_VERSION, 2), FeatureLevelRecord("group.version", 1))
        self._answers: Mapping[type[Message], Callable[[Any], Message]] = {
            BrokerRegistrationRequest: self._register,
            BrokerHeartbeatRequest: self._heartbeat,
            k56.AlterPartitionRequest: self._alter_partitions,
            k73.AssignReplicasToDirsRequest: self._assign,
            AllocateProducerIdsRequest: self._allocate_ids,
            CreateTopicsRequest: self._create_topics,
            EnvelopeRequest: self._open_envelope,
        }

    async def start(self, network: MemoryNetwork) -> None:
        node = self.quorum.leader.node
        kinds: list[type[Message]] = [FetchRequest, FetchSnapshotRequest, *self._answers]
        versions = {kind.API_KEY: (kind.MIN_VERSION, kind.MAX_VERSION) for kind in kinds}
        self.node = await ScriptedNode(network, node.host, node.port, self._answer, versions).start()

    def stop(self) -> None:
        self.node.stop()
        for session in self._sessions.values():
            _cancel(session.timer)

    @property
    def links(self) -> list[ScriptedConnection]:
        """The open connections of brokers to the controller."""
        return [link for link in self.node.connections if not link.transport.is_closing()]

    def write(self, *records: MetadataRecord) -> None:
        """Append and commit these records."""
        self.quorum.write(*records)
        self.quorum.commit()
        self.image = made_of(*records, image=self.image)

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        return self.image.topics[self.image.topic_ids[topic]].partitions[index]

    # --- changes that tests make -------------------------------------------------------------------------------------------------

    def change(self, topic: str, index: int = 0, **fields: Any) -> None:
        """Append a change of a partition; `fields` are those of `PartitionChangeRecord`."""
        self.write(PartitionChangeRecord(index, self.image.topic_ids[topic], **fields))

    def configure(self, kind: int, name: str, **values: str | None) -> None:
        """Change settings of a resource; None removes one. In their names, `_` stands for `.`."""
        self.write(*(ConfigRecord(kind, name, key.replace("_", "."), value) for key, value in values.items()))

    def delete(self, topic: str) -> None:
        self.write(RemoveTopicRecord(self.image.topic_ids[topic]))

    def fence(self, broker: int) -> None:
        """Fence a broker, as if its session had expired."""
        self._change_broker(broker, fenced=1)

    # --- requests ----------------------------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Any:
        body = request.body
        if isinstance(body, FetchRequest | FetchSnapshotRequest):
            return asyncio.ensure_future(
                self.quorum.answer(self.quorum.leader, body, body.max_wait_ms if isinstance(body, FetchRequest) else 0)
            )
        self.requests.append(body)
        return self._answers[type(body)](body)

    def _open_envelope(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        inside = decode_request(envelope.request_data)
        header, answer = inside.header, self._answers[type(inside.body)](inside.body)
        written = b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, answer))
        return EnvelopeResponse(written[PREFIX_BYTES:])

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        node, known = request.broker_id, self.image.brokers.get(request.broker_id)
        again = known is not None and known.incarnation_id == request.incarnation_id
        if known is not None and not again and not known.fenced and not known.in_controlled_shutdown:
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        epoch = known.epoch if known is not None and again else self._end
        registration = RegisterBrokerRecord(
            node,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[Endpoint(at.name, at.host, at.port, at.security_protocol) for at in request.listeners],
            features=[FeatureRange(each.name, each.min_supported_version, each.max_supported_version) for each in request.features],
            rack=request.rack,
            fenced=known.fenced if known is not None and again else True,
            log_dirs=list(request.log_dirs),
        )
        self._decide(registration)
        if not again:
            _cancel(self._sessions.get(node, BrokerSession()).timer)
            self._sessions[node] = BrokerSession()
        self._is_alive(node)
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        node, broker = request.broker_id, self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        session = self._sessions[node]
        session.offset = request.current_metadata_offset
        self._is_alive(node)
        caught_up = session.offset >= broker.epoch
        ends = request.want_shut_down and (broker.fenced or not self._leads(node))
        if request.offline_log_dirs:
            self._directories_failed(node, request.offline_log_dirs)
        if broker.fenced and caught_up and not request.want_fence and not ends:
            self._change_broker(node, fenced=-1)
        elif not broker.fenced and request.want_shut_down and not broker.in_controlled_shutdown:
            self._change_broker(node, in_controlled_shutdown=1)
            session.shut_down_offset = self._end
            ends = not self._leads(node)
        if session.shut_down_offset is not None:
            ends = ends and all(self._sessions[other].offset >= session.shut_down_offset - 1 for other in self._unfenced() if other != node)
        if ends and not broker.fenced:
            self._change_broker(node, fenced=1)
        return BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=self.image.brokers[node].fenced, should_shut_down=ends)

    def _alter_partitions(self, request: k56.AlterPartitionRequest) -> k56.AlterPartitionResponse:
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return k56.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        answers = [
            k56.TopicResult(
                topic.topic_id,
                [self._alter_partition(request.broker_id, topic.topic_id, partition_data) for partition_data in topic.partitions],
            )
            for topic in request.topics
        ]
        return k56.AlterPartitionResponse(topics=answers)

    def _alter_partition(self, node: int, topic_id: bytes, partition_data: k56.PartitionData) -> k56.PartitionResult:
        index = partition_data.partition_index
        topic = self.image.topics.get(topic_id)
        if topic is None or index not in topic.partitions:
            return k56.PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        wanted = {member.broker_id: member.broker_epoch for member in partition_data.new_isr_with_epochs}
        refusal = self._refusal(node, topic.partitions[index], partition_data, wanted)
        if refusal:
            return k56.PartitionResult(index, refusal)
        self.write(PartitionChangeRecord(index, topic_id, isr=list(wanted), leader_recovery_state=partition_data.leader_recovery_state))
        now = self.image.topics[topic_id].partitions[index]
        return k56.PartitionResult(index, 0, now.leader, now.leader_epoch, list(now.isr), now.leader_recovery_state, now.partition_epoch)

    def _refusal(self, node: int, now: PartitionRegistration, partition_data: k56.PartitionData, wanted: Mapping[int, int]) -> int:
        if partition_data.leader_epoch > now.leader_epoch or partition_data.partition_epoch > now.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if partition_data.leader_epoch < now.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if node != now.leader:
            return ErrorCode.INVALID_REQUEST
        if partition_data.partition_epoch < now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if node not in wanted or not wanted.keys() <= set(now.replicas):
            return ErrorCode.INVALID_REQUEST
        alive = set(self._alive(self.image))
        epochs = {member: self.image.brokers[member].epoch for member in wanted if member in alive}
        eligible = all(
            member in epochs and epoch in {-1, epochs[member]} and _is_online(self.image, now, member) for member, epoch in wanted.items()
        )
        return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA

    def _assign(self, request: k73.AssignReplicasToDirsRequest) -> k73.AssignReplicasToDirsResponse:
        answers = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                for partition in topic.partitions:
                    now = self.image.topics[topic.topic_id].partitions[partition.partition_index]
                    places = zip(now.replicas, now.directories, strict=True)
                    changed = [directory.id if replica == request.broker_id else place for replica, place in places]
                    self._decide(PartitionChangeRecord(partition.partition_index, topic.topic_id, directories=changed))
                topics.append(
                    k73.TopicResult(topic.topic_id, [k73.PartitionResult(partition.partition_index) for partition in topic.partitions])
                )
            answers.append(k73.DirectoryResult(directory.id, topics))
        return k73.AssignReplicasToDirsResponse(directories=answers)

    def _allocate_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        first = max(self.image.next_producer_id, 0)
        self.write(ProducerIdsRecord(request.broker_id, request.broker_epoch, first + PRODUCER_IDS))
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_IDS)

    def _create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[self._create_topic(wanted) for wanted in request.topics])

    def _create_topic(self, wanted: CreatableTopic) -> CreatableTopicResult:
        if wanted.name in self.image.topic_ids:
            return CreatableTopicResult(wanted.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        placed = [list(each.broker_ids) for each in wanted.assignments] or list(self._placed(wanted))
        if not all(placed):
            return CreatableTopicResult(wanted.name, error_code=ErrorCode.INVALID_REPLICATION_FACTOR)
        topic_id = self._random.randbytes(16)
        configs = [ConfigRecord(2, wanted.name, config.name, config.value) for config in wanted.configs]
        partitions = [self._new_partition(topic_id, index, replicas) for index, replicas in enumerate(placed)]
        self.write(TopicRecord(wanted.name, topic_id), *configs, *partitions)
        return CreatableTopicResult(wanted.name, topic_id, num_partitions=len(placed), replication_factor=len(placed[0]))

    def _placed(self, wanted: CreatableTopic) -> Iterator[list[int]]:
        brokers = list(self._unfenced())
        copies = max(wanted.replication_factor, 1)
        for index in range(max(wanted.num_partitions, 1)):
            yield [brokers[(index + copy) % len(brokers)] for copy in range(copies)] if copies <= len(brokers) else []

    def _new_partition(self, topic_id: bytes, index: int, replicas: Sequence[int]) -> PartitionRecord:
        isr = [replica for replica in replicas if replica in self._alive(self.image)]
        directories = [self.image.brokers[replica].directories[0] for replica in replicas]
        return PartitionRecord(
            index, topic_id, list(replicas), isr, leader=isr[0], leader_epoch=0, partition_epoch=0, directories=directories
        )

    # --- consequences ------------------------------------------------------------------------------------------------------------

    @property
    def _end(self) -> int:
        return self.quorum.leader.end

    def _unfenced(self) -> list[int]:
        return [node for node, broker in self.image.brokers.items() if not broker.fenced]

    def _alive(self, image: MetadataImage) -> list[int]:
        """Return the ids of brokers that may lead and be in an ISR."""
        return [node for node, broker in image.brokers.items() if not broker.fenced and not broker.in_controlled_shutdown]

    def _leads(self, node: int) -> bool:
        return any(partition.leader == node for topic in self.image.topics.values() for partition in topic.partitions.values())

    def _is_alive(self, node: int) -> None:
        session = self._sessions[node]
        _cancel(session.timer)
        session.timer = self._timers.schedule(self._clock.mono_ms() + SESSION_MS, lambda: self._silent(node))

    def _silent(self, node: int) -> None:
        if not self.image.brokers[node].fenced:
            self.fence(node)

    def _change_broker(self, node: int, **fields: Any) -> None:
        self._decide(BrokerRegistrationChangeRecord(node, self.image.brokers[node].epoch, **fields))

    def _directories_failed(self, node: int, failed: Sequence[bytes]) -> None:
        known = self.image.brokers[node].directories
        left = [directory for directory in known if directory not in failed]
        if list(known) != left:
            # A record without directories changes none: this differs from a broker that has not reported any.
            self._decide(BrokerRegistrationChangeRecord(node, self.image.brokers[node].epoch, fenced=1, log_dirs=left))

    def _decide(self, *records: MetadataRecord) -> None:
        """Append these records, and the changes of leaders and ISRs that they cause."""
        after = ImageDelta(self.image)
        for record in records:
            after.apply(record)
        self.write(*records, *self._consequences(after.finish()))

    def _consequences(self, image: MetadataImage) -> Iterator[MetadataRecord]:
        alive = self._alive(image)
        for topic in image.topics.values():
            for index, now in topic.partitions.items():
                online = [replica for replica in alive if _is_online(image, now, replica)]
                isr = [replica for replica in now.isr if replica in online] or list(now.isr)
                leader = _elected(now, [replica for replica in isr if replica in online])
                if leader != now.leader or isr != list(now.isr):
                    elected = LEADER_UNCHANGED if leader == now.leader else leader
                    yield PartitionChangeRecord(index, topic.topic_id, isr=None if isr == list(now.isr) else isr, leader=elected)


def _is_online(image: MetadataImage, partition: PartitionRegistration, replica: int) -> bool:
    """Return whether the replica is in a directory that its broker has."""
    return replica not in partition.replicas or (
        partition.directories[partition.replicas.index(replica)] in {*image.brokers[replica].directories, MIGRATING}
    )


def _elected(now: PartitionRegistration, candidates: Sequence[int]) -> int:
    if now.leader in candidates:
        return now.leader
    return next((replica for replica in now.replicas if replica in candidates), NO_LEADER)


def _cancel(timer: TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
