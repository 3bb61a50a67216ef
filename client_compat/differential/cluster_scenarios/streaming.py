"""Compare Ottla's cluster with Apache Kafka's by streams groups: brokers that do not coordinate a group, and a group whose coordinator
stops while tasks change hands."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import (
    UnexpectedResponse,
    create,
    wait_until_coordinated,
    wait_until_in_sync,
    wait_until_known,
)
from client_compat.differential.cluster_scenarios.coordinators import GROUP, coordinator
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import until
from client_compat.differential.scenarios.share_members import configure
from client_compat.differential.scenarios.streams_groups import (
    AT_ONCE,
    LEAVE,
    NOTHING,
    STANDBYS,
    beat,
    described,
    joining,
    settled,
    word_count,
)
from ottla.protocol.messages.k88_streams_group_heartbeat import Topology
from ottla.protocol.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group import Subtopology, TaskIds

TWO_PARTITIONS = ((1, 2, 3), (2, 3, 1))


def groups_elsewhere(nodes: Nodes) -> None:
    """Send requests about a streams group to the brokers that do not coordinate it."""
    create(nodes, "elsewhere-text")
    here = coordinator(nodes, "st-elsewhere", GROUP)
    for label, request in {
        "join": joining("st-elsewhere", "m", word_count("elsewhere")),
        "heartbeat": beat("st-elsewhere", "m", 1),
        "leave": beat("st-elsewhere", "m", LEAVE),
        "an invalid heartbeat": beat("st-elsewhere", "", 1),
        "describe": StreamsGroupDescribeRequest(["st-elsewhere"]),
    }.items():
        for node_id in nodes.living:
            if node_id != here:
                nodes.ask(node_id, label, request)


def moved(nodes: Nodes) -> None:
    """Stop a streams group's coordinator after it has told one member to revoke tasks for which another member waits. The next coordinator
    continues the rebalance."""
    group = group_at(nodes, "st-moved", 1)
    configure(nodes.at(1), group, AT_ONCE | {STANDBYS: "1"})
    create(nodes, "moved-text", TWO_PARTITIONS)
    wait_until_groups_know(nodes, 1, "moved-text")
    at = nodes.at(1)
    at.ask("a joins", joining(group, "a", word_count("moved")))
    epoch = settled(at, group)["a"]
    at.ask("b joins", joining(group, "b", word_count("moved")))
    everything = [TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]
    at.ask("a is told to revoke", beat(group, "a", epoch, **{**NOTHING, "active_tasks": everything}))
    described(at, "before", group)
    nodes.stop(1)
    wait_until_known(nodes, [2, 3])
    wait_until_in_sync(nodes, "__consumer_offsets")
    wait_until_coordinated(nodes)
    here = nodes.at(coordinator(nodes, group, GROUP))
    described(here, "at the next coordinator", group)
    here.ask("a still owns all", beat(group, "a", epoch, **{**NOTHING, "active_tasks": everything}))
    here.ask("b waits", beat(group, "b", epoch + 1))
    epochs = settled(here, group)
    described(here, "settled", group)
    here.ask("b leaves", beat(group, "b", LEAVE))
    nodes.start(1)
    wait_until_known(nodes, [1, 2, 3])
    wait_until_in_sync(nodes, "__consumer_offsets")
    wait_until_coordinated(nodes)
    described(nodes.at(1), "at the first coordinator again", group)
    nodes.ask(1, "a goes on", beat(group, "a", epochs["a"]))
    settled(nodes.at(1), group)
    described(nodes.at(1), "settled again", group)


def group_at(nodes: Nodes, prefix: str, node_id: int) -> str:
    """Return the first group id `prefix-0`, `prefix-1`, … that the broker coordinates. Raises UnexpectedResponse if none of 100 is."""
    for number in range(100):
        if coordinator(nodes, f"{prefix}-{number}", GROUP) == node_id:
            return f"{prefix}-{number}"
    raise UnexpectedResponse(f"{node_id} coordinates none of 100 groups")


def wait_until_groups_know(nodes: Nodes, node_id: int, topic: str) -> None:
    """Wait until broker `node_id`, as a group coordinator, knows the topic. It has then also applied all earlier changes of groups'
    settings."""
    probe, group = nodes.at(node_id), group_at(nodes, f"st-looks-at-{topic}", node_id)
    for _ in until(f"groups at {node_id} know {topic}"):
        answer = probe.ask_unrecorded(joining(group, "a", Topology(0, [Subtopology("0", [topic])])), 0)
        probe.ask_unrecorded(beat(group, "a", LEAVE), 0)
        if not answer.error_code and not any(status.status_code == 1 for status in answer.status or ()):
            return
