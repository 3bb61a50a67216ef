"""Selects the replica that a consumer should fetch from (KIP-392).

Source: KAFKA ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, ReplicaView.comparator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.replication.leadership import Leadership


def preferred(leadership: Leadership, rack: str, offset: int, rack_of: Callable[[int], str | None]) -> int | None:
    """Return the follower from which a consumer in `rack` should read `offset`, or None for the leader.

    The result is None if the leader is in the same rack. Otherwise it is the in-sync follower in the rack whose log contains the offset and
    has the highest log end offset; of several with the same end offset, the one that was caught up last. `rack_of` returns None for a
    broker that consumers cannot reach.
    """
    if rack_of(leadership.registration.leader) == rack:
        return None
    near = [node for node in _have(leadership, offset) if rack_of(node) == rack]
    return max(near, key=lambda node: (leadership.followers[node].log_end, leadership.followers[node].caught_up_ms, node), default=None)


def _have(leadership: Leadership, offset: int) -> Iterator[int]:
    for node, progress in leadership.followers.items():
        progress.refresh()
        if node in leadership.in_sync.committed and progress.log_start <= offset <= progress.log_end:
            yield node
