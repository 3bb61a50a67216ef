"""Compare Ottla's cluster with Apache Kafka's by share groups: coordinators and leaders on other brokers, and a partition whose leader
stops while records are in flight.

Rule: a share partition's coordinator depends on its topic's id, which differs in each cluster. A scenario chooses the group's name so that
the same broker coordinates it everywhere.
"""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import (
    UnexpectedResponse,
    create,
    wait_until_coordinated,
    wait_until_in_sync,
    wait_until_known,
)
from client_compat.differential.cluster_scenarios.coordinators import GROUP, coordinator
from client_compat.differential.cluster_scenarios.writing import write
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import batch, until
from client_compat.differential.scenarios.share_groups import beat
from client_compat.differential.scenarios.share_members import (
    ACCEPT,
    LATEST_VERSION,
    OPEN,
    RELEASE,
    SHARE_KEY,
    SLOW,
    ShareMember,
    coordinator_key,
    initialize,
    load,
)
from client_compat.differential.scenarios.share_state import each, read
from ottla.protocol.messages import k90_describe_share_group_offsets as k90
from ottla.protocol.messages import k91_alter_share_group_offsets as k91
from ottla.protocol.messages import k92_delete_share_group_offsets as k92
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k77_share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_partitions import SharePartition, ShareTopic

LED_BY_EACH = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


def group_at(nodes: Nodes, prefix: str, topic_id: bytes, node_id: int) -> str:
    """Return the first group id `prefix-0`, `prefix-1`, … whose share partition 0 of the topic is coordinated by the broker `node_id`.
    Raises UnexpectedResponse if none of 500 is."""
    for number in range(500):
        group = f"{prefix}-{number}"
        if share_coordinator(nodes, group, topic_id, 0) == node_id:
            nodes.names.learn(group, prefix)
            return group
    raise UnexpectedResponse(f"{node_id} coordinates no share partition of 500 groups")


def share_coordinator(nodes: Nodes, group: str, topic_id: bytes, partition: int = 0) -> int:
    """Return the id of the broker that is the share coordinator (KIP-932) of a group's share partition."""
    request = FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[coordinator_key(group, topic_id, partition)])
    return int(nodes.at(nodes.living[0]).ask_unrecorded(request, 6).coordinators[0].node_id)


def found(nodes: Nodes) -> None:
    """Send FindCoordinator for a share partition to every broker."""
    topic_id = create(nodes, "share-found")
    key = coordinator_key(group_at(nodes, "found", topic_id, 2), topic_id, 0)
    nodes.names.learn(key, "share partition")
    nodes.everywhere("share partition", FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key]))


def state_elsewhere(nodes: Nodes) -> None:
    """Send the share coordinator's APIs to the broker that coordinates a share partition, and to those that do not."""
    topic_id = create(nodes, "share-state", LED_BY_EACH)
    group = group_at(nodes, "state", topic_id, 3)
    for label, request in each(group, topic_id).items():
        nodes.everywhere(label, request)


def groups_elsewhere(nodes: Nodes) -> None:
    """Send requests about a share group to the brokers that do not coordinate it."""
    create(nodes, "share-grouped")
    here = coordinator(nodes, "share-elsewhere", GROUP)
    for label, request in {
        "heartbeat": beat("share-elsewhere", "m", 0, "share-grouped"),
        "describe": ShareGroupDescribeRequest(["share-elsewhere"]),
        "offsets": k90.DescribeShareGroupOffsetsRequest(
            [
                k90.DescribeShareGroupOffsetsRequestGroup(
                    "share-elsewhere", [k90.DescribeShareGroupOffsetsRequestTopic("share-grouped", [0])]
                )
            ]
        ),
        "alter": k91.AlterShareGroupOffsetsRequest("share-elsewhere"),
        "delete": k92.DeleteShareGroupOffsetsRequest("share-elsewhere"),
    }.items():
        for node_id in nodes.living:
            if node_id != here:
                nodes.ask(node_id, label, request)


def leaders(nodes: Nodes) -> None:
    """Fetch and acknowledge all partitions of a topic at every broker: the partitions that this broker leads, and those that other brokers
    lead."""
    topic_id = create(nodes, "share-led", LED_BY_EACH)
    group = group_at(nodes, "led", topic_id, 1)
    for index in range(3):
        at = nodes.at(share_coordinator(nodes, group, topic_id, index))
        initialize(nodes.at(1), group, topic_id, [index], coordinator=at)
        load(nodes.at(index + 1), group, topic_id, [index])
        write(nodes, index + 1, "write", "share-led", bytes(16), batch(b"a", b"b"), partition=index)
    for node_id in nodes.living:
        member = ShareMember(nodes.at(node_id), group, f"m{node_id}", topic_id, [0, 1, 2])
        member.fetch("every partition", **SLOW)
        for index in range(3):
            member.acknowledge(f"of partition {index}", (0, 1, [ACCEPT]), partition=index)
        member.fetch("an acknowledgement in a fetch", (0, 0, [RELEASE]), partition=(node_id % 3))
        member.close()


def moved(nodes: Nodes) -> None:
    """Stop the leader of a share partition when some of its records are accepted, some released, and some not acknowledged.

    The next leader delivers the released and the unacknowledged records again. Then the first leader is restarted and continues.
    """
    topic_id = create(nodes, "share-moved")
    group = group_at(nodes, "moved", topic_id, 2)
    initialize(nodes.at(1), group, topic_id, [0], coordinator=nodes.at(2))
    load(nodes.at(1), group, topic_id, [0])
    write(nodes, 1, "write", "share-moved", bytes(16), batch(*[b"%d" % n for n in range(9)]))
    first = ShareMember(nodes.at(1), group, "first", topic_id)
    first.fetch("all", **SLOW)
    first.acknowledge("some", (0, 1, [ACCEPT]), (2, 4, [RELEASE]))
    nodes.stop(1)
    wait_until_known(nodes, [2, 3])
    wait_until_in_sync(nodes, "share-moved")
    wait_until_coordinated(nodes)
    second = ShareMember(nodes.at(2), group, "second", topic_id)
    _until_loaded(second)
    second.fetch("what was not accepted", **SLOW)
    second.acknowledge("of before", (0, 0, [ACCEPT]))
    second.acknowledge("some of it", (2, 3, [ACCEPT]), (8, 8, [RELEASE]))
    nodes.start(1)
    wait_until_known(nodes, [1, 2, 3])
    wait_until_in_sync(nodes, "share-moved")
    wait_until_coordinated(nodes)
    second.acknowledge("at the leader of before", (4, 4, [ACCEPT]))
    third = ShareMember(nodes.at(1), group, "third", topic_id)
    _until_loaded(third)
    third.fetch("what was not accepted", **SLOW)
    nodes.at(2).ask("state", read(group, topic_id, leader_epoch=-1))


def _until_loaded(member: ShareMember) -> None:
    """Send ShareFetch requests for no records, without recording the responses, until the leader has loaded the share partition. The
    member's share session is open then."""
    listed = [ShareTopic(member.topic_id, [SharePartition(0)])]
    for _ in until(f"{member.name} has a leader"):
        request = member.request(share_session_epoch=OPEN, topics=listed, max_records=0)
        answer = member.probe.ask_unrecorded(request, LATEST_VERSION)
        if not answer.error_code and not any(part.error_code for topic in answer.responses for part in topic.partitions):
            member.epoch = 1
            return
