"""Which replica a consumer is to read from (KIP-392).

Source: KAFKA ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, ReplicaView.comparator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.replication.leadership import Leadership


def preferred(others: Leadership, rack: str, offset: int, rack_of: Callable[[int], str | None]) -> int | None:
    """The follower that a consumer in `rack` is to read `offset` from; None where it is the leader.

    That is so if the leader is in the rack too; else the in-sync follower there that has the offset and is the furthest, then that caught
    up last. `rack_of` gives None for a broker that consumers cannot reach.
    """
    if rack_of(others.registration.leader) == rack:
        return None
    near = [node for node in _have(others, offset) if rack_of(node) == rack]
    return max(near, key=lambda node: (others.followers[node].log_end, others.followers[node].caught_up_ms, node), default=None)


def _have(others: Leadership, offset: int) -> Iterator[int]:
    for node, progress in others.followers.items():
        progress.refresh()
        if node in others.in_sync.committed and progress.log_start <= offset <= progress.log_end:
            yield node
