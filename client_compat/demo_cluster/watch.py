"""Samples a cluster's state several times a second over the wire, as any Kafka client could.

Rules:
- A paused broker gets no requests. A broker that does not answer is asked again for the next sample.
- If the brokers' descriptions of a partition differ, the one with the newest leader epoch is used.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from client_compat.demo_cluster.record import Event, Kind, PartitionView, Recording, Sample, State, Window, now_ms
from client_compat.kafka.cluster import METADATA_VERSION, Cluster, Node
from client_compat.support.brokers import HOST
from client_compat.support.load import RunningLoad
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponsePartition
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.schema import Message

POLL_S = 0.15
ANSWER_S = 1.0
LIST_OFFSETS_VERSION = 6
LATEST = -1
CONSUMER, ANY_REPLICA = -1, -2
"""Replica ids for ListOffsets requests. With CONSUMER a leader returns the high watermark; with ANY_REPLICA (Kafka's debugging consumer)
each replica returns its log end offset."""
STATES = {Kind.KILL: State.DEAD, Kind.STOP: State.DEAD, Kind.PAUSE: State.PAUSED, Kind.RESUME: State.SERVES, Kind.START: State.FENCED}
"""The state in which a broker is right after each kind of action on its process."""
NO_ANSWER = (OSError, ProtocolError)
ABSORBED = b"Retry absorbed: "
"""The text with which a broker logs, at level debug, that a batch was a duplicate and was not appended again."""


@dataclass(slots=True)
class Watch:
    """Samples a cluster's state several times a second into `recording`, and passes every sample and event to `on_sample` and
    `on_event`."""

    cluster: Cluster
    topic: str
    partitions: int
    recording: Recording
    on_sample: Callable[[Recording], None] = lambda recording: None
    on_event: Callable[[Recording, Event], None] = lambda recording, event: None
    load: RunningLoad | None = None
    paused: set[int] = field(default_factory=set)
    """The ids of the paused brokers, which get no requests."""
    _connections: dict[int, Client] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def record(self, kind: Kind, broker: int | None, text: str) -> None:
        """Record an event. If it is an action on a broker's process, the recording has the broker's new state at once, not only from the
        next sample on."""
        event, latest = Event(now_ms(), kind, broker, text), self.recording.latest
        if broker is not None and kind in STATES:
            self.recording.samples.append(replace(latest, at_ms=event.at_ms, states={**latest.states, broker: STATES[kind]}))
        self.recording.events.append(event)
        self.on_event(self.recording, event)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Sample the cluster's state on a thread while the context lasts."""
        thread = threading.Thread(target=self._run, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            for node_id in list(self._connections):
                self._drop(node_id)

    def _run(self) -> None:
        while not self._ended.wait(POLL_S):
            before = self.recording.latest.partitions
            sample = self._look()
            self.recording.samples.append(sample)
            self._record_leaders(before, sample.partitions)
            self.on_sample(self.recording)

    def _record_leaders(self, before: Sequence[PartitionView], after: Sequence[PartitionView]) -> None:
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            if new.leader != old.leader and old.leader_epoch >= 0:
                who = "nobody leads" if new.leader is None else f"broker {new.leader} leads"
                self.record(Kind.LEADER, new.leader, f"{who} {self.topic}-{index}, in epoch {new.leader_epoch}")

    def _look(self) -> Sample:
        found: list[tuple[int, MetadataResponsePartition]] = []
        fenced: set[int] = set()
        ends: dict[int, dict[int, int]] = defaultdict(dict)
        marks: dict[int, int] = {}
        windows: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for broker in self.cluster.brokers:
            if (view := self._ask(broker)) is None:
                continue
            found += [(broker.node_id, one) for one in view.partitions]
            fenced |= view.fenced
            for index, end in view.log_ends.items():
                ends[index][broker.node_id] = end
            marks |= view.high_watermarks
            for index, producer_id, epoch, sequence in view.producers:
                windows[producer_id, epoch][index] = sequence
        before = self.recording.latest
        load = self.load
        return Sample(
            now_ms(),
            {broker.node_id: self._state(broker, fenced, before.states.get(broker.node_id)) for broker in self.cluster.brokers},
            [self._view(index, found, ends[index], marks.get(index), before) for index in range(self.partitions)],
            [Window(*who, sequences) for who, sequences in sorted(windows.items())] or before.windows,
            before.sent if load is None else tuple(load.sent),
            before.answered if load is None else tuple(load.answered),
            before.repeated if load is None else tuple(load.repeated),
            sum(broker.process.output.read_bytes().count(ABSORBED) for broker in self.cluster.brokers if broker.process.output.exists()),
        )

    def _view(
        self, index: int, found: Sequence[tuple[int, MetadataResponsePartition]], ends: dict[int, int], mark: int | None, before: Sample
    ) -> PartitionView:
        """Return the state of partition `index`. `found`: each broker's id and its metadata of a partition; the newest leader epoch wins,
        then the leader's own description. `ends`: log end offsets by broker; `mark`: the high watermark. Without metadata, or with older
        epochs only, the previous sample's leader, ISR and high watermark are used."""
        known = before.partitions[index] if before.partitions else PartitionView()
        mine = [(one.leader_epoch, one.leader_id == by, one) for by, one in found if one.partition_index == index]
        *_, view = max(mine, key=lambda each: each[:2], default=(None,))
        if view is None or view.leader_epoch < known.leader_epoch:
            return PartitionView(known.leader, known.leader_epoch, known.in_sync, known.high_watermark, ends)
        leader = view.leader_id if view.leader_id >= 0 else None
        return PartitionView(leader, view.leader_epoch, tuple(sorted(view.isr_nodes)), known.high_watermark if mark is None else mark, ends)

    def _state(self, broker: Node, fenced: set[int], before: State | None) -> State:
        """Return a broker's state. If the broker runs but does not answer, it still counts as serving if it was serving `before`, else as
        fenced."""
        if not broker.process.alive:
            return State.DEAD
        if broker.node_id in self.paused:
            return State.PAUSED
        if broker.node_id in self._connections:
            return State.FENCED if broker.node_id in fenced else State.SERVES
        return State.SERVES if before == State.SERVES else State.FENCED

    def _ask(self, broker: Node) -> _BrokerView | None:
        """Request one broker's view of the cluster; return None if the broker does not answer."""
        node_id = broker.node_id
        if not broker.process.alive or node_id in self.paused:
            self._drop(node_id)
            return None
        try:
            if node_id not in self._connections:
                self._connections[node_id] = Client(HOST, broker.process.port, client_id="demo-watch", timeout_s=ANSWER_S)
            return self._view_of(node_id, self._connections[node_id])
        except NO_ANSWER:
            self._drop(node_id)
            return None

    def _view_of(self, node_id: int, client: Client) -> _BrokerView:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        metadata: MetadataResponse = client.call(wanted, METADATA_VERSION)
        described: DescribeClusterResponse = client.call(DescribeClusterRequest(include_fenced_brokers=True))
        partitions = [one for topic in metadata.topics for one in topic.partitions]
        led = [one.partition_index for one in partitions if one.leader_id == node_id]
        view = _BrokerView(
            partitions,
            {one.broker_id for one in described.brokers if one.is_fenced},
            dict(self._offsets(client, list(range(self.partitions)), ANY_REPLICA)),
            dict(self._offsets(client, led, CONSUMER)),
        )
        if led:
            answer = client.call(DescribeProducersRequest([TopicRequest(self.topic, led)]))
            for one in (one for topic in answer.topics for one in topic.partitions):
                view.producers.extend((one.partition_index, p.producer_id, p.producer_epoch, p.last_sequence) for p in one.active_producers)
        return view

    def _offsets(self, client: Client, partitions: Sequence[int], who: int) -> Iterator[tuple[int, int]]:
        if partitions:
            topics = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(index, timestamp=LATEST) for index in partitions])]
            request: Message = ListOffsetsRequest(replica_id=who, topics=topics)
            for one in client.call(request, LIST_OFFSETS_VERSION).topics[0].partitions:
                if one.error_code == ErrorCode.NONE:
                    yield one.partition_index, one.offset

    def _drop(self, node_id: int) -> None:
        if (client := self._connections.pop(node_id, None)) is not None:
            client.close()


@dataclass(slots=True)
class _BrokerView:
    """One broker's answers about the cluster. `fenced`: ids of fenced brokers; `log_ends` and `high_watermarks`: by partition; `producers`:
    (partition, producer id, epoch, last sequence) of the partitions that it leads."""

    partitions: Sequence[MetadataResponsePartition]
    fenced: set[int]
    log_ends: dict[int, int]
    high_watermarks: dict[int, int]
    producers: list[tuple[int, int, int, int]] = field(default_factory=list)
