"""Saves states of a cluster in this process, so that a test can return to them (`InProcessCluster.mark` and `rewind`). A saved state is
called a mark. To save it, all nodes are paused while their directories are copied.

Invariants:
- When a state is saved, every replica has every record, and every broker has applied all metadata. Otherwise it would depend on the next
  leader whether the records of only one replica survive a rewind.
- After a rewind, each broker registers with the incarnation id that it had when the state was saved. The controller knows this id, so it
  changes no leader and no ISR.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.broker.storage.marks import Mark, Marks
from ottla.broker.testing import broker_thread
from ottla.broker.testing.broker_thread import NodeThread
from ottla.broker.testing.cluster_nodes import POLL_S, ClusterNodes


def mark(cluster: ClusterNodes, marks: Marks[None]) -> Mark:
    """Save the cluster's present state as a new mark in `marks`, and return the mark. The call waits until all replicas have all records.

    Raises RuntimeError if a node does not run or is cut off, TimeoutError if replicas stay behind, ForkRefused if the files cannot be
    copied.
    """
    down = sorted(cluster.brokers.keys() - set(cluster.reaching_controller))
    if down or not cluster.controller.running or cluster.controller.paused:
        named = ", ".join([*(f"broker {number}" for number in down), *(() if down else ("the controller",))])
        raise RuntimeError(f"a mark needs all nodes: {named} does not run, is paused, or is cut off")
    end = monotonic() + broker_thread.TIMEOUT_S
    while monotonic() < end:
        with _all_paused(cluster):
            if _is_settled(cluster):
                return _marked(cluster, marks)
        sleep(POLL_S)
    raise TimeoutError(f"timed out after {broker_thread.TIMEOUT_S:.0f} s waiting until all replicas have all records and metadata")


@contextmanager
def rewound_to(cluster: ClusterNodes, mark: Mark) -> Iterator[None]:
    """Set the clocks, histories and incarnation ids of the stopped nodes to the values that are saved in `mark`. The incarnation ids are
    used only by brokers that start inside this context."""
    cluster.controller.clock.rewind_to(mark.now_ms)
    for broker, history in zip(cluster.brokers.values(), mark.histories, strict=True):
        broker.movable_clock.rewind_to(mark.now_ms)
        broker.history.cut(history)
        broker.incarnation_id = mark.incarnations[broker.number]
    try:
        yield
    finally:
        for broker in cluster.brokers.values():
            broker.incarnation_id = None


@contextmanager
def _all_paused(cluster: ClusterNodes) -> Iterator[None]:
    """Pause all nodes inside this context. At its end, restart each unfenced broker's session, as if a heartbeat had just arrived."""
    nodes: list[NodeThread[object]] = [*cluster.brokers.values(), cluster.controller]  # type: ignore[list-item] # only paused
    with ExitStack() as stack:
        for node in nodes:
            node.pause()
            stack.callback(node.resume, (lambda: _touch_sessions(cluster)) if node is cluster.controller else (lambda: None))
        yield


def _touch_sessions(cluster: ClusterNodes) -> None:
    """Restart the sessions of all unfenced brokers at the controller, as heartbeats do."""
    state, now_ms = cluster.controller.node.role.state, cluster.controller.clock.mono_ms()
    for broker in state.image.brokers.values():
        if not broker.fenced:
            state.sessions.touch(BrokerIdAndEpoch(broker.broker_id, broker.epoch), now_ms)


def _is_settled(cluster: ClusterNodes) -> bool:
    """Return whether all records and metadata are committed, replicated and applied. All nodes are paused during the call, so any thread
    may read their state."""
    role = cluster.controller.node.role
    newest, image = role.newest.provenance.offset, role.newest.image
    if role.voter.high_watermark < role.voter.end_offset or newest != role.voter.end_offset - 1:
        return False
    brokers = {number: broker.node for number, broker in cluster.brokers.items()}
    if any(broker.services.features().epoch != newest for broker in brokers.values()):
        return False
    logs = {number: {(each.topic, each.index): each for each in broker.services.partitions} for number, broker in brokers.items()}
    for topic in image.topics.values():
        for index, found in topic.partitions.items():
            replicas = [logs[number].get((topic.name, index)) for number in found.replicas]
            ends = {None if each is None else each.log.log_end_offset for each in replicas}
            leader = logs.get(found.leader, {}).get((topic.name, index))
            if leader is None or not leader.leads or sorted(found.isr) != sorted(found.replicas) or ends != {leader.log.high_watermark}:
                return False
    return True


def _marked(cluster: ClusterNodes, marks: Marks[None]) -> Mark:
    log_dirs = [cluster.controller.node.log_dir, *(broker.node.log_dir for broker in cluster.brokers.values())]
    for log_dir in log_dirs:
        if not log_dir.save():
            raise RuntimeError(f"not all partitions in {log_dir.path} can be saved")

    def mark_as_clean(copy: Path) -> None:
        for log_dir in log_dirs:
            log_dir.mark_as_clean(copy / log_dir.path.relative_to(cluster.data_dir))

    image, histories = cluster.controller.node.role.newest.image, [broker.history.length() for broker in cluster.brokers.values()]
    incarnations = {number: image.brokers[number].incarnation_id for number in cluster.brokers}
    return marks.add(cluster.controller.clock.now_ms(), mark_as_clean, histories, incarnations)
