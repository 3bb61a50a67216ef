"""Compare Ottla's cluster with Apache Kafka's by Fetch requests to the leader, to followers and to other brokers, with epochs, with racks,
and as a replica."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import create
from client_compat.differential.cluster_scenarios.writing import fill
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import UNKNOWN_ID
from client_compat.differential.scenarios.fetch import part, request
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k01_fetch import ReplicaState


def anywhere(nodes: Nodes) -> None:
    """Send Fetch to the leader, to a follower and to a broker without a replica: at offsets in and out of range, for unknown partitions,
    and from racks."""
    topic_id = create(nodes, "read", [(1, 2)])
    fill(nodes, "read")
    for version in nodes.range(ApiKey.FETCH):
        for offset in (0, 5, 6, 7, -1):
            nodes.everywhere(f"from {offset}", request("read", topic_id, part(0, offset)), version)
        nodes.everywhere("unknown partition", request("read", topic_id, part(9)), version)
        nodes.everywhere("unknown topic", request("nowhere", UNKNOWN_ID, part()), version)
        nodes.everywhere("read committed", request("read", topic_id, part(), isolation_level=1), version)
        if version >= 11:
            for rack in ("rack-1", "rack-2", "rack-3", "elsewhere"):
                nodes.everywhere(f"from {rack}", request("read", topic_id, part(), rack_id=rack), version)


def epochs(nodes: Nodes) -> None:
    """Fetch with old, current and unknown leader epochs, at the leader and at a follower."""
    topic_id = create(nodes, "read-epochs", [(1, 2)])
    fill(nodes, "read-epochs")
    for version in (9, 11, 12, 13, 15, 16, 17, 18):
        for epoch in (-1, 0, 1, 5):
            nodes.everywhere(f"epoch {epoch}", request("read-epochs", topic_id, part(current_leader_epoch=epoch)), version)
        if version >= 12:
            for last in (0, 1, 9):
                diverging = part(0, 4, last_fetched_epoch=last, current_leader_epoch=0)
                nodes.everywhere(f"last epoch {last}", request("read-epochs", topic_id, diverging), version)


def as_a_replica(nodes: Nodes) -> None:
    """Fetch as a broker that is no replica, as one that does not exist, and with a wrong broker epoch."""
    topic_id = create(nodes, "replicated", [(1, 2)])
    fill(nodes, "replicated")
    for replica in (3, 9):
        for version in (9, 12):
            nodes.everywhere(f"as replica {replica}", request("replicated", topic_id, part(), replica_id=replica), version)
        for version in (15, 16, 17, 18):
            state = ReplicaState(replica, -1)
            nodes.everywhere(f"as replica {replica}", request("replicated", topic_id, part(), replica_state=state), version)
            fenced = request("replicated", topic_id, part(current_leader_epoch=7), replica_state=state)
            nodes.everywhere(f"as replica {replica}, unknown epoch", fenced, version)


def sessions(nodes: Nodes) -> None:
    """Open, continue and close a fetch session at a leader and at a follower."""
    topic_id = create(nodes, "read-session", [(1, 2), (2, 1)])
    fill(nodes, "read-session")
    for version in (7, 12, 13, 18):
        for node_id in (1, 2):
            opened = nodes.ask(node_id, "opened", request("read-session", topic_id, part(0, 4), part(1), session_epoch=0), version)
            for epoch in (1, 2):
                again = request("read-session", topic_id, session_id=opened.session_id, session_epoch=epoch)
                nodes.ask(node_id, f"epoch {epoch}", again, version)
            nodes.ask(node_id, "closed", request("read-session", topic_id, session_id=opened.session_id, session_epoch=-1), version)
