"""Checks the invariants of a simulated cluster during a run, and those of its state after all faults are healed.

The module `metadata_judge` checks the metadata. The main invariant of the logs: after a leader has reported a high watermark, every later
leader has the records below it, byte for byte.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from ottla.broker.cluster.image import ELR_VERSION, MetadataImage, PartitionRegistration, TopicImage
from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.log_batches import batches_of
from ottla.broker.sim.metadata_judge import MetadataChecker, differing, has_no_eligible_leader, may_elect_uncleanly
from ottla.broker.sim.sim_cluster import SESSION_MS, SimBroker, SimCluster
from ottla.broker.sim.violation import Violation
from ottla.broker.storage.leader_epochs import UNDEFINED, EpochStart
from ottla.broker.storage.partition_log import PartitionLog

FENCED_AFTER_US: Final = (SESSION_MS + 2_000) * 1_000
"""A broker that has sent nothing for this many microseconds must be fenced. The time includes its session timeout, the controller's next
check, and the sync of the controller's decision."""


@dataclass
class _Committed:
    """The records of a partition that its leaders have reported as committed: `end` is the highest high watermark, and `batches` has a
    digest of each batch by its base offset."""

    end: int = 0
    batches: dict[int, bytes] = field(default_factory=dict)
    led: tuple[int, int] = (-1, 0)
    """The newest leader epoch of the partition that was seen, and the high watermark that its leader reported last."""
    leader: int = -1
    epochs: Sequence[EpochStart] = ()
    """The leader epochs, each with its start offset, in the log of the newest leader."""
    unclean: list[int] = field(default_factory=list)
    """The leader epochs that began with an unclean election. It has entries only for topics that allow such elections."""
    lost_from: int = INT64_MAX
    """The first offset that the unclean elections so far may have lost."""


class _ReportedMark(NamedTuple):
    """A replica's reported high watermark: `end` is the greatest value that it has reported since its process started. `epoch` is a leader
    epoch whose leader had all records below `end`."""

    partition: Partition
    end: int
    epoch: int


class ClusterChecker:
    """Checks the invariants of a running simulated cluster. Each call of `check` checks them once, and raises Violation if one is
    violated."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.metadata = MetadataChecker(cluster)
        self._committed: dict[tuple[bytes, int], _Committed] = {}
        self._silent_us: dict[int, int] = {}
        self._marks: dict[tuple[int, bytes, int], tuple[Partition, int, int]] = {}
        self._reported: dict[tuple[int, bytes, int], _ReportedMark] = {}
        self.truncations_below_mark = 0
        """How often a replica was truncated below a high watermark that it had reported before."""

    def check(self) -> None:
        """Check everything in the cluster that has changed since the last call. Raises Violation if an invariant is violated."""
        self._check_silent_brokers()
        for before, after in self.metadata.check():
            self._check_partitions(before, after)
        for node in self._cluster.nodes.values():
            # A node that starts or shuts down is checked, too, because it may lead. It has no services before its logs are open.
            services: Any = getattr(node.broker, "services", None)
            for partition in services.partitions if services is not None else ():
                self._check_partition(node.node_id, partition)

    def _check_silent_brokers(self) -> None:
        """Raise Violation if a broker without a running process is not fenced after its session timeout. While the controller cannot
        commit, nothing is checked."""
        cluster, now_us = self._cluster, self._cluster.loop.now_us
        if not cluster.controller.can_commit:
            self._silent_us.clear()
            return
        for node in cluster.nodes.values():
            may_be_heard = cluster.network.link(node.host, cluster.controller.host).blocked  # its held heartbeats may still arrive
            if node.is_up or may_be_heard:
                self._silent_us.pop(node.node_id, None)
            elif now_us - self._silent_us.setdefault(node.node_id, now_us) > FENCED_AFTER_US:
                registered = cluster.image.brokers.get(node.node_id)
                if registered is not None and not registered.fenced:
                    raise Violation(f"{node.host} has been silent for {FENCED_AFTER_US // 1_000_000} s, but is not fenced")

    def _check_partitions(self, before: MetadataImage, after: MetadataImage) -> None:
        """Check the ISR changes and elections between two metadata images. Raises Violation if a replica has joined an ISR without every
        committed record, or if an election was unclean; in topics that allow unclean elections, only note them."""
        for topic_id, topic in after.topics.items():
            old_topic = before.topics.get(topic_id)
            if old_topic is None or old_topic is topic:
                continue
            for index, now in topic.partitions.items():
                old = old_topic.partitions.get(index, now)
                eligible = {old.leader, *old.isr, *old.elr} - {-1}
                called_off = bool(now.isr) and eligible.isdisjoint(now.isr) and eligible <= {*old.adding_replicas}
                if now.leader_epoch > old.leader_epoch and (called_off or now.leader not in {-1, *eligible}):
                    if may_elect_uncleanly(before, topic) or may_elect_uncleanly(after, topic):
                        self._committed.setdefault((topic_id, index), _Committed()).unclean.append(now.leader_epoch)
                    else:
                        _check_clean_election(before, f"{topic.name}-{index}", old, now)
                for node in sorted(set(now.isr) - set(old.isr)):
                    self._check_joined(self._cluster.nodes[node], topic, index)

    def lost_from(self, partition: Partition) -> int:
        """Return the first offset of the partition that unclean elections may have lost."""
        return self._committed.get((partition.log.topic_id, partition.index), _Committed()).lost_from

    @property
    def unclean_elections(self) -> int:
        """The number of unclean elections that were seen."""
        return sum(len(known.unclean) for known in self._committed.values())

    def _check_joined(self, node: SimBroker, topic: TopicImage, index: int) -> None:
        known = self._committed.get((topic.topic_id, index))
        partition = partition_at(node, topic, index)
        if partition is None or known is None or (known.unclean and known.unclean[-1] > known.led[0]):
            return
        end = partition.log.log_end_offset
        if end < known.end:
            raise Violation(f"node {node.node_id} joins the ISR of {topic.name}-{index} with log end {end}; committed is up to {known.end}")

    def _check_partition(self, node: int, partition: Partition) -> None:
        replica, log = partition.replica, partition.log
        mark, end = replica.high_watermark, log.log_end_offset
        if mark > end:
            raise Violation(f"node {node}: the high watermark {mark} of {_name(partition)} is beyond the log end {end}")
        key = (node, log.topic_id, partition.index)
        self._check_truncations(key, partition, mark)
        now = (partition, mark, replica.leader_epoch)
        before = self._marks.get(key)
        if before == now:
            return
        self._marks[key] = now
        if log.last_stable_offset > mark and replica.leads:
            raise Violation(f"node {node}: the last stable offset {log.last_stable_offset} of {_name(partition)} is beyond {mark}")
        if replica.leads:
            self._check_leader(node, partition, mark)

    def _check_truncations(self, key: tuple[int, bytes, int], partition: Partition, mark: int) -> None:
        """Raise Violation if a replica was truncated below its high watermark without an unclean election. `key` is the replica's (node id,
        topic id, partition), `mark` its present high watermark.

        A follower has the records that its leader reported as committed. Every cleanly elected leader has these records too, so none can
        make the follower truncate them.

        The check needs the leader epoch in which the replica learned its high watermark. This is the replica's epoch if the replica was
        already seen in this epoch before. After a restart it is uncertain: the high watermark then comes from the checkpoint, and the
        current leader may have been elected uncleanly meanwhile. After a truncation it is uncertain, too, because the logs may diverge
        again before the new end (KIP-279). In these two cases, the epoch of the last record below the high watermark is used.
        """
        reported, end, epoch = self._reported.get(key), partition.log.log_end_offset, partition.replica.leader_epoch
        learned_now = False
        if reported is not None and reported.partition is partition:
            if end >= reported.end >= mark:
                return
            if end < reported.end:
                self.truncations_below_mark += 1
                if not any(unclean > reported.epoch for unclean in self._committed.get(key[1:], _Committed()).unclean):
                    text = f"is truncated to {end} in epoch {epoch}, below its high watermark {reported.end} of epoch {reported.epoch}"
                    raise Violation(f"node {key[0]}: {_name(partition)} {text}, without an unclean election")
            learned_now = end >= reported.end and self._marks[key][2] == epoch
        self._reported[key] = _ReportedMark(partition, mark, epoch if learned_now else _epoch_at(partition.log.epochs.entries, mark - 1))

    def _check_leader(self, node: int, partition: Partition, mark: int) -> None:
        known = self._committed.setdefault((partition.log.topic_id, partition.index), _Committed())
        epoch = partition.replica.leader_epoch
        if epoch < known.led[0]:
            self._check_old_leader(node, partition, known, mark)
            return
        if epoch == known.led[0] and node != known.leader:
            raise Violation(f"nodes {known.leader} and {node} both lead {_name(partition)} in epoch {epoch}")
        if epoch == known.led[0] and mark < known.led[1]:
            raise Violation(
                f"node {node}: the high watermark of {_name(partition)} decreased from {known.led[1]} to {mark} in epoch {epoch}"
            )
        if epoch > known.led[0]:
            self._check_new_leader(node, partition, known)
        known.led, known.leader, known.epochs = (epoch, mark), node, partition.log.epochs.entries
        for base, following, data in batches_of(partition.log, known.end, mark):
            known.batches[base] = _digest(data)
            known.end = following

    def _check_old_leader(self, node: int, partition: Partition, known: _Committed, mark: int) -> None:
        """Check a broker that still considers itself the leader, in an old epoch. Raises Violation if its successor's log differs below the
        old leader's high watermark `mark`, except after an unclean election."""
        if known.unclean and known.unclean[-1] > partition.replica.leader_epoch:
            return
        late = list(batches_of(partition.log, known.end, mark))
        for other in self._cluster.nodes.values():
            topic = self.metadata.image.topics.get(partition.log.topic_id)
            theirs = partition_at(other, topic, partition.index) if late and topic is not None else None
            leads = theirs is not None and theirs.replica.leads and theirs.replica.leader_epoch == known.led[0]
            if theirs is not None and leads and late != list(batches_of(theirs.log, known.end, mark)):
                text = f"commits {_name(partition)} up to {mark}, which its successor {other.node_id} does not have"
                raise Violation(f"node {node} of the old epoch {partition.replica.leader_epoch} {text}")

    def _check_new_leader(self, node: int, partition: Partition, known: _Committed) -> None:
        """Raise Violation if a new leader lacks a committed record, except records that an unclean election may lose."""
        start = partition.log.log_start_offset
        elected = next((epoch for epoch in known.unclean if epoch > known.led[0]), None)
        if elected is not None:
            lost_from = divergence_offset(partition.log, elected, known.epochs)
            known.lost_from = min(known.lost_from, lost_from)
            if lost_from < known.end:
                known.batches = {base: digest for base, digest in known.batches.items() if base < lost_from}
                known.end = lost_from
        wanted = {base: digest for base, digest in known.batches.items() if base >= start}
        found = {base: _digest(data) for base, _, data in batches_of(partition.log, start, known.end)}
        if wanted != found:
            lost = sorted(base for base in wanted if found.get(base) != wanted[base]) or sorted(found.keys() - wanted.keys())
            raise Violation(
                f"node {node} leads {_name(partition)} in epoch {partition.replica.leader_epoch} without the committed {lost[:5]}; "
                f"its log ends at {partition.log.log_end_offset}, committed is up to {known.end}"
            )


def _check_clean_election(before: MetadataImage, name: str, old: PartitionRegistration, now: PartitionRegistration) -> None:
    """Raise Violation if, in a topic without unclean elections, a replica became leader that was neither in the ISR nor an eligible leader
    replica. There are five exceptions; `_check_new_leader` then checks that the leader has every committed record:

    - The leader is the last known leader of a partition without eligible replicas (KIP-966).
    - No replica could lead, so the administrator requested an unclean election (`SimAdmin.elect_longest`).
    - The image contains several changes of the partition: the leader may have joined the ISR in between.
    - The new ISR has other members: an unclean election makes the winner the only ISR member, so this leader joined the ISR in the same
      change (the AlterPartition of a leader that shuts down).
    - The change ends a reassignment that removes the old leader: the new leader joined the ISR in the same change.
    """
    last_known = before.features.get(ELR_VERSION, 0) >= 1 and now.leader in old.last_known_elr
    leader_removed = old.leader in old.removing_replicas and old.leader not in now.replicas and now.leader in now.isr
    if (
        last_known
        or leader_removed
        or has_no_eligible_leader(before, old)
        or now.partition_epoch > old.partition_epoch + 1
        or len(now.isr) > 1
    ):
        return
    raise Violation(
        f"{name}: an unclean election, which the topic does not allow, made node {now.leader} the leader, with the ISR {now.isr}, in epoch "
        f"{now.leader_epoch}; before, the ISR was {old.isr} and the eligible leader replicas were {old.elr}"
    )


def divergence_offset(log: PartitionLog, elected: int, epochs: Sequence[EpochStart]) -> int:
    """Compare two replicas' logs by their leader epochs, and return the offset up to which they agree. One is `log`, in its state at the
    beginning of leader epoch `elected`; the other has the leader epochs `epochs`.

    The result may be below the end of `log`: the records behind it were never committed, or an unclean election has lost them.
    """
    own = [each for each in log.epochs.entries if each.epoch < elected]
    starts = sorted({each.start_offset for each in (*own, *epochs)})
    parted = next((start for start in starts if _epoch_at(own, start) != _epoch_at(epochs, start)), INT64_MAX)
    return min(max(log.end_offset_for_epoch(elected - 1)[1], 0), parted)


def _epoch_at(epochs: Sequence[EpochStart], offset: int) -> int:
    number = bisect_right(epochs, offset, key=lambda each: each.start_offset) - 1
    return epochs[number].epoch if number >= 0 else UNDEFINED


def partition_at(node: SimBroker, topic: TopicImage, index: int) -> Partition | None:
    """Return the replica of a topic's partition on a node; None if the node does not serve it."""
    if not node.serves or node.broker is None:
        return None
    found = node.broker.services.partitions.by_topic_id(topic.topic_id)
    try:
        return None if found is None else found.get(index)
    except Rejected:
        return None


def unequal_replicas(cluster: SimCluster) -> list[str]:
    """Return a text for each partition whose replicas do not all have the same log, byte for byte."""
    found = []
    for topic in cluster.image.topics.values():
        for index, registration in topic.partitions.items():
            logs = {}
            for node in registration.replicas:
                partition = partition_at(cluster.nodes[node], topic, index)
                assert partition is not None
                log = partition.log
                whole = b"".join(data for _, _, data in batches_of(log, log.log_start_offset, log.log_end_offset))
                logs[node] = (log.log_end_offset, partition.replica.high_watermark, _digest(whole))
            if len(set(logs.values())) > 1:
                found.append(f"{topic.name}-{index}: {', '.join(f'node {node} ends at {log[0]}' for node, log in logs.items())}")
    return found


def unsettled(cluster: SimCluster) -> list[str]:
    """Return the reasons why the cluster is not at rest yet: fenced brokers, incomplete ISRs, high watermarks below the log end, open
    transactions, reassignments. The list is empty if it is at rest."""
    if not cluster.all_serve():
        return [f"{node.host} does not serve" for node in cluster.all_nodes.values() if not node.serves] or ["a broker is fenced"]
    found = differing(cluster)
    for topic in cluster.image.topics.values():
        for index, now in topic.partitions.items():
            place = f"{topic.name}-{index}"
            if len(now.isr) != len(now.replicas) or now.adding_replicas or now.removing_replicas:
                found.append(f"{place}: the ISR is {now.isr} of {now.replicas}, adding {now.adding_replicas}")
            for node in cluster.nodes.values():
                why = _unsettled_replica(partition_at(node, topic, index), node.node_id, now)
                found += [f"{place}: node {node.node_id} {why}"] if why else []
    for node in cluster.nodes.values():
        assert node.broker is not None
        there = {partition.log.topic_id for partition in node.broker.services.partitions}
        found += [f"node {node.node_id} has a deleted topic"] if there - cluster.image.topics.keys() else []
    return found


def _unsettled_replica(partition: Partition | None, node: int, now: PartitionRegistration) -> str:
    if node not in now.replicas or partition is None:
        return "" if (node in now.replicas) == (partition is not None) else "has or lacks a replica contrary to the metadata"
    log, replica = partition.log, partition.replica
    if replica.leader_epoch != now.leader_epoch or replica.leads != (now.leader == node):
        return f"is in leader epoch {replica.leader_epoch} of {now.leader_epoch}"
    if replica.high_watermark != log.log_end_offset:
        return f"has committed {replica.high_watermark} of {log.log_end_offset}"
    if replica.leads and log.last_stable_offset != log.log_end_offset:
        return f"has an open transaction from offset {log.last_stable_offset} on"
    return ""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.index}"
