"""What must hold in a cluster at every moment, and what must be so when everything has healed.

Rules: the metadata's are in `metadata_judge`; the logs' are those of the protocol of replication: what is below a high watermark that a
leader told is in the log of every later one, to the last byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from ottla.broker.cluster.image import MetadataImage, PartitionRegistration, TopicImage
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.log_batches import batches_of
from ottla.broker.sim.metadata_judge import MetadataWatch
from ottla.broker.sim.sim_client import Place
from ottla.broker.sim.sim_cluster import SimBroker, SimCluster
from ottla.broker.sim.violation import Violation


@dataclass
class _Committed:
    """What leaders have told to be committed: the end, and by base offset what the batch is."""

    end: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)
    led: tuple[int, int] = (-1, 0)
    """The newest leader epoch, and its high watermark."""


class Watch:
    """Looks at a running cluster, as often as it is asked to. Raises Violation."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.metadata = MetadataWatch(cluster)
        self._committed: dict[tuple[bytes, int], _Committed] = {}
        self._marks: dict[tuple[int, bytes, int], tuple[Partition, int, int]] = {}

    def look(self) -> None:
        """Everything that has changed since the last time."""
        for before, after in self.metadata.look():
            self._look_at_who_joined(before, after)
        for node in self._cluster.nodes.values():
            if node.serves and node.broker is not None:
                for partition in node.broker.services.partitions:
                    self._look_at(node.node_id, partition)

    def _look_at_who_joined(self, before: MetadataImage, after: MetadataImage) -> None:
        """Who joins an in-sync set has all that is committed: it may be the next to lead."""
        for topic_id, topic in after.topics.items():
            old = before.topics.get(topic_id)
            if old is None or old is topic:
                continue
            for index, now in topic.partitions.items():
                for node in sorted(set(now.isr) - set(old.partitions.get(index, now).isr)):
                    self._has_joined(self._cluster.nodes[node], topic, index)

    def _has_joined(self, node: SimBroker, topic: TopicImage, index: int) -> None:
        known = self._committed.get((topic.topic_id, index))
        if node.serves and node.broker is not None and known is not None:
            end = node.broker.services.partitions.get(topic.name, index).log.log_end_offset
            if end < known.end:
                raise Violation(f"node {node.node_id} joins {topic.name}-{index} with a log up to {end}; committed is up to {known.end}")

    def _look_at(self, node: int, partition: Partition) -> None:
        replica, log = partition.replica, partition.log
        mark, end = replica.high_watermark, log.log_end_offset
        key = (node, log.topic_id, partition.index)
        now = (partition, mark, replica.leader_epoch)
        before = self._marks.get(key)
        if before == now:
            return
        self._marks[key] = now
        if not mark <= end:
            raise Violation(f"node {node}: the high watermark {mark} of {_name(partition)} is beyond the log's end {end}")
        if log.last_stable_offset > mark and replica.leads:
            raise Violation(f"node {node}: the last stable offset {log.last_stable_offset} of {_name(partition)} is beyond {mark}")
        if replica.leads:
            self._look_at_leader(node, partition, mark)

    def _look_at_leader(self, node: int, partition: Partition, mark: int) -> None:
        known = self._committed.setdefault((partition.log.topic_id, partition.index), _Committed())
        epoch = partition.replica.leader_epoch
        if epoch < known.led[0]:
            self._is_at_successor(node, partition, known, mark)
            return
        if epoch == known.led[0] and mark < known.led[1]:
            raise Violation(
                f"node {node}: the high watermark of {_name(partition)} went back from {known.led[1]} to {mark} in epoch {epoch}"
            )
        if epoch > known.led[0]:
            self._has_all(node, partition, known)
        known.led = (epoch, mark)
        for base, following, data in batches_of(partition.log, known.end, mark):
            known.batches[base] = _digest(data)
            known.end = following

    def _is_at_successor(self, node: int, partition: Partition, known: _Committed, mark: int) -> None:
        """Who does not know yet that it leads no more can commit only what its successor had before it began."""
        late = list(batches_of(partition.log, known.end, mark))
        for other in self._cluster.nodes.values():
            if not (late and other.serves and other.broker is not None):
                continue
            theirs = other.broker.services.partitions.get(partition.topic, partition.index)
            leads = theirs.replica.leads and theirs.replica.leader_epoch == known.led[0]
            if leads and late != list(batches_of(theirs.log, known.end, mark)):
                told = f"commits {_name(partition)} up to {mark}, which its successor {other.node_id} has not"
                raise Violation(f"node {node} of the old epoch {partition.replica.leader_epoch} {told}")

    def _has_all(self, node: int, partition: Partition, known: _Committed) -> None:
        """A new leader has everything that was committed."""
        start = partition.log.log_start_offset
        wanted = {base: digest for base, digest in known.batches.items() if base >= start}
        found = {base: _digest(data) for base, _, data in batches_of(partition.log, start, known.end)}
        if wanted != found:
            lost = sorted(base for base in wanted if found.get(base) != wanted[base]) or sorted(found.keys() - wanted.keys())
            raise Violation(
                f"node {node} leads {_name(partition)} in epoch {partition.replica.leader_epoch}, without the committed {lost[:5]}; "
                f"its log ends at {partition.log.log_end_offset}, committed is up to {known.end}"
            )


def unequal_replicas(cluster: SimCluster) -> list[str]:
    """Partitions whose replicas are not the same to the last byte."""
    found = []
    for topic in cluster.image.topics.values():
        for index, registration in topic.partitions.items():
            logs = {}
            for node in registration.replicas:
                broker = cluster.nodes[node].broker
                assert broker is not None
                log = broker.services.partitions.get(topic.name, index)
                whole = batches_of(log.log, log.log.log_start_offset, log.log.log_end_offset)
                logs[node] = (log.log.log_end_offset, log.replica.high_watermark, _digest(b"".join(data for _, _, data in whole)))
            if len(set(logs.values())) > 1:
                found.append(f"{topic.name}-{index}: {', '.join(f'node {node} ends at {log[0]}' for node, log in logs.items())}")
    return found


def unsettled(cluster: SimCluster) -> list[str]:
    """What keeps the cluster from being whole: brokers, in-sync sets, high watermarks, open transactions."""
    if not cluster.all_serve():
        return [f"node {node.node_id} does not serve" for node in cluster.nodes.values() if not node.serves] or ["a broker is fenced"]
    found = []
    for topic in cluster.image.topics.values():
        for index, now in topic.partitions.items():
            place: Place = (topic.name, index)
            if len(now.isr) != len(now.replicas):
                found.append(f"{place}: in sync are {now.isr} of {now.replicas}")
            found += [f"{place}: {why}" for node in now.replicas if (why := _unsettled_replica(cluster, node, place, now))]
    return found


def _unsettled_replica(cluster: SimCluster, node: int, place: Place, now: PartitionRegistration) -> str:
    broker = cluster.nodes[node].broker
    assert broker is not None
    if broker.services.topics.topic(place[0]) is None:
        return f"node {node} does not know it"
    partition = broker.services.partitions.get(*place)
    log, replica = partition.log, partition.replica
    if replica.leader_epoch != now.leader_epoch or replica.leads != (now.leader == node):
        return f"node {node} is in leader epoch {replica.leader_epoch} of {now.leader_epoch}"
    if replica.high_watermark != log.log_end_offset:
        return f"node {node} has committed {replica.high_watermark} of {log.log_end_offset}"
    if replica.leads and log.last_stable_offset != log.log_end_offset:
        return f"node {node} has a transaction open since {log.last_stable_offset}"
    return ""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"
