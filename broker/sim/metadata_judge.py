"""Checks the invariants of a simulated cluster's metadata: those of every committed metadata image, of the change from each image to the
next, and of the metadata log.

Sources: KAFKA PartitionChangeBuilder, ReplicationControlManager; KIP-966 for eligible leader replicas.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from ottla.broker.cluster.image import ELR_VERSION, MetadataImage, PartitionRegistration, ResourceType, TopicImage
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.sim.log_batches import batches_of
from ottla.broker.sim.sim_cluster import MIN_ISR, SimCluster
from ottla.broker.sim.violation import Violation

_MIN_ISR_NAME: Final = "min.insync.replicas"
UNCLEAN_SETTING: Final = "unclean.leader.election.enable"


class MetadataChecker:
    """Collects every metadata image that the simulated controller commits. `check` checks the images collected since its last call, and
    raises Violation if an invariant is violated."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.image = MetadataImage()
        """The newest metadata image that was checked."""
        self._new: list[MetadataImage] = []
        self._log: dict[int, bytes] = {}
        self._log_end = 0
        self._seen: tuple[ControllerRole | None, int] = (None, 0)
        cluster.controller.on_committed = self._new.append

    def check(self) -> list[tuple[MetadataImage, MetadataImage]]:
        """Check all metadata images that were committed since the last call. Return a list of pairs: the previous image, and the checked
        image. Raises Violation if an invariant is violated."""
        steps = []
        while self._new:
            before, self.image = self.image, self._new.pop(0)
            check_step(before, self.image)
            steps.append((before, self.image))
        self._check_log()
        return steps

    def _check_log(self) -> None:
        """Check that the committed part of the metadata log never changes, not even when the controller restarts from its disk. Raises
        Violation if it does."""
        role = self._cluster.controller.role
        if role is None:
            return
        log, end = role.voter.raft_log.log, role.voter.high_watermark
        if (role, end) == self._seen:
            return
        if role is not self._seen[0]:
            self._log = {base: digest for base, digest in self._log.items() if base >= log.log_start_offset}
            found = {base: _digest(data) for base, _, data in batches_of(log, log.log_start_offset, self._log_end)}
            lost = sorted(base for base, digest in self._log.items() if found.get(base) != digest)
            if lost or end < self._log_end:
                raise Violation(
                    f"the restarted controller lost records that it had committed: {lost[:5]}, up to {self._log_end}, has {end}"
                )
        self._seen = role, end
        for base, following, data in batches_of(log, max(self._log_end, log.log_start_offset), end):
            self._log[base] = _digest(data)
            self._log_end = following


def differing(cluster: SimCluster) -> list[str]:
    """Return a text for each broker whose metadata differs from the controller's, and one if the controller has uncommitted changes."""
    role = cluster.controller.role
    assert role is not None
    found = [] if role.state.image == role.newest.image else ["the controller has uncommitted decisions"]
    for node in cluster.nodes.values():
        assert node.broker is not None
        if node.broker.services.topics.image != role.newest.image:
            found.append(f"the metadata of {node.host} differs from the controller's")
    return found


def check_step(before: MetadataImage, after: MetadataImage) -> None:
    """Check the change from one committed metadata image to the next. Raises Violation if no correct controller could have made it."""
    for node, broker in after.brokers.items():
        old = before.brokers.get(node)
        if old is not None and (broker.epoch < old.epoch or (broker.epoch == old.epoch and broker.incarnation_id != old.incarnation_id)):
            raise Violation(f"broker {node} went from epoch {old.epoch} to {broker.epoch}")
    if len({broker.epoch for broker in after.brokers.values()}) != len(after.brokers):
        raise Violation("two brokers have the same epoch")
    every = after.brokers is not before.brokers or after.configs is not before.configs
    for topic_id, topic in after.topics.items():
        old_topic = before.topics.get(topic_id)
        if topic is old_topic and not every:
            continue
        for index, now in topic.partitions.items():
            then = None if old_topic is None else old_topic.partitions.get(index)
            wrong = _wrong_registration(after, topic, now) or _wrong_step(then, now)
            if not wrong and has_no_eligible_leader(after, now) and not _may_be_given_up(before, after, topic, then):
                wrong = "no replica can ever lead it"
            if wrong:
                raise Violation(f"{topic.name}-{index}: {wrong}: {then} -> {now}")
    if after.next_producer_id < before.next_producer_id:
        raise Violation(f"the next producer id went from {before.next_producer_id} to {after.next_producer_id}")


def min_isr(image: MetadataImage, topic: TopicImage) -> int:
    """Return the topic's effective min.insync.replicas: the topic's setting, otherwise the cluster-wide setting, otherwise the static
    setting of the nodes; at most the replication factor."""
    text = next((text for text in _min_isr_set(image, topic) if text is not None), str(MIN_ISR))
    return min(int(text), topic.replication_factor)


def _min_isr_set(image: MetadataImage, topic: TopicImage) -> list[str | None]:
    """Return the topic's and the cluster-wide setting of min.insync.replicas, in this order; None if a setting is not set."""
    resources = (ResourceType.TOPIC, topic.name), (ResourceType.BROKER, "")
    return [image.configs.get(resource, {}).get(_MIN_ISR_NAME) for resource in resources]


def may_elect_uncleanly(image: MetadataImage, topic: TopicImage) -> bool:
    """Return whether the topic's setting unclean.leader.election.enable is true."""
    return image.configs.get((ResourceType.TOPIC, topic.name), {}).get(UNCLEAN_SETTING) == "true"


def _joined_isr_uncleanly(image: MetadataImage, topic: TopicImage, now: PartitionRegistration) -> bool:
    """Return whether the partition's only ISR member may be a fenced broker that lacks records.

    This happens if a reassignment is cancelled while its adding replicas are the whole ISR: the first remaining replica then becomes the
    ISR (KAFKA PartitionReassignmentRevert). It is possible only in topics with unclean elections.
    """
    return may_elect_uncleanly(image, topic) and len(now.isr) == 1 and now.leader == -1


def has_no_eligible_leader(image: MetadataImage, now: PartitionRegistration) -> bool:
    """Return whether no replica of the partition is eligible as the leader, so that only an unclean election can elect one."""
    return not now.isr and (not image.features.get(ELR_VERSION, 0) or not (now.elr or now.last_known_elr))


def _may_be_given_up(before: MetadataImage, after: MetadataImage, topic: TopicImage, then: PartitionRegistration | None) -> bool:
    """Return whether a partition may correctly lose its last eligible leader. This happens if min.insync.replicas is changed while there is
    no leader, because the change clears the eligible leader replicas (KAFKA TopicDelta.maybeClearElr). One image may contain several
    changes, so the partition may have had a leader in the image `before`."""
    return then is not None and (has_no_eligible_leader(before, then) or _min_isr_set(before, topic) != _min_isr_set(after, topic))


def _wrong_registration(image: MetadataImage, topic: TopicImage, now: PartitionRegistration) -> str:
    fenced = {node for node, broker in image.brokers.items() if broker.fenced}
    replicas, in_sync, eligible = set(now.replicas), set(now.isr), set(now.elr)
    moving = {*now.adding_replicas, *now.removing_replicas}
    has_elr = image.features.get(ELR_VERSION, 0) >= 1
    # An eligible leader need not be a replica: a reassignment that ends with too small an ISR leaves it (KAFKA maybePopulateTargetElr).
    rules = {
        "the ISR is not a subset of the replicas": in_sync <= replicas and len(in_sync) == len(now.isr),
        "the leader is not in the ISR": now.leader == -1 or now.leader in in_sync,
        "an eligible leader replica is in the ISR": not eligible & in_sync,
        "there are eligible leader replicas beside a large enough ISR": not eligible or len(in_sync) < min_isr(image, topic),
        "replicas and directories differ in number": len(now.directories) == len(now.replicas),
        "the leader is fenced": now.leader not in fenced,
        "a fenced broker is in the ISR": not fenced & in_sync
        or (not has_elr and len(in_sync) == 1)
        or _joined_isr_uncleanly(image, topic, now),
        "an added or removed replica is not a replica": moving <= replicas,
    }
    return ", ".join(what for what, holds in rules.items() if not holds)


def _wrong_step(then: PartitionRegistration | None, now: PartitionRegistration) -> str:
    if then is None or then == now:  # equal after a restart of the controller
        return ""
    if now.leader_epoch < then.leader_epoch or now.partition_epoch <= then.partition_epoch:
        return "an epoch decreased"
    if now.leader != then.leader and now.leader_epoch == then.leader_epoch:
        return "two leaders in one epoch"
    return ""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
