"""The effect of a metadata change on the replicas of one broker (Kafka's `TopicsDelta.localChanges`).

Invariants:
- Removed replicas are in a list of their own, which the caller must handle first: if a topic was deleted and created again, its replicas
  are removed under the old topic id, then led or followed under the new one.
- A partition whose partition epoch is unchanged counts as unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.cluster.image import PartitionRegistration, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges, TopicChange


@dataclass(frozen=True, slots=True)
class LocalReplica:
    """A replica on this broker. For a removed one, `topic` and `partition` are the state before the removal."""

    topic: TopicImage
    index: int
    partition: PartitionRegistration


class LocalChanges(NamedTuple):
    """The replicas on this broker that a metadata change affects. `elected` are those of `leaders` whose leader epoch begins with this
    change."""

    removed: list[LocalReplica]
    leaders: list[LocalReplica]
    elected: list[LocalReplica]
    followers: list[LocalReplica]


def local_changes(changes: ImageChanges, node_id: int) -> LocalChanges:
    """Return the replicas of broker `node_id` that `changes` affect: removed, leaders and followers."""
    local = LocalChanges([], [], [], [])
    for change in changes.topics.values():
        for index in sorted(change.partitions):
            _sort_in(local, change, index, node_id)
    return local


def _sort_in(local: LocalChanges, change: TopicChange, index: int, node_id: int) -> None:
    before = None if change.before is None else change.before.partitions.get(index)
    after = None if change.after is None else change.after.partitions.get(index)
    if change.after is None or after is None or node_id not in after.replicas:
        if change.before is not None and before is not None and node_id in before.replicas:
            local.removed.append(LocalReplica(change.before, index, before))
        return
    if before is not None and before.partition_epoch == after.partition_epoch:
        return
    replica = LocalReplica(change.after, index, after)
    if after.leader != node_id:
        local.followers.append(replica)
        return
    local.leaders.append(replica)
    if before is None or before.leader_epoch != after.leader_epoch:
        local.elected.append(replica)
