"""`ottla cluster`: the controllers and brokers of any Kafka cluster, and its under-replicated partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer

from ottla.broker.cli.cluster import AdminClient, NotServed, check
from ottla.broker.cli.common import BOOTSTRAP, AsJson, Bootstrap, command, print_json, print_table, say
from ottla.protocol.messages.k03_metadata import MetadataResponseTopic
from ottla.protocol.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionResult,
    ReplicaState,
    TopicData,
)
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

app = typer.Typer(help="Show the state of any Kafka cluster: controllers, brokers, and under-replicated partitions.", no_args_is_help=True)

CLUSTER_METADATA = "__cluster_metadata"
NOBODY = -1


@app.callback()
def group() -> None:
    """Make Typer treat `status` as a sub-command although it is the only one."""


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """A controller. `leads` is true for the active controller. `lag` is the number of metadata records that the controller has not
    replicated yet; None before its first fetch."""

    id: int
    address: str | None
    leads: bool
    lag: int | None


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker. `leads` counts the partitions that the broker leads, `out_of_sync` its replicas that are not in the ISR. `lag` is the
    number of metadata records that the broker has not replicated yet; None before its first fetch."""

    id: int
    address: str
    rack: str | None
    state: str
    leads: int
    replicas: int
    out_of_sync: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """An under-replicated partition. `leader` is the id of the leading broker, None if there is none."""

    topic: str
    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster. `epoch` is the leader epoch of the KRaft quorum, `metadata_offset` its high watermark; both are None if the cluster does
    not serve DescribeQuorum, such as a standalone node."""

    cluster_id: str
    epoch: int | None
    metadata_offset: int | None
    controllers: list[ControllerStatus]
    brokers: list[BrokerStatus]
    under_replicated: list[PartitionStatus]


@app.command("status")
@command
def status(bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show controllers, brokers (also fenced ones), how far each has replicated the metadata log, and under-replicated partitions.

    For example: ottla cluster status -b localhost:9092
    """
    with AdminClient(bootstrap) as cluster:
        described: DescribeClusterResponse = cluster.any(DescribeClusterRequest(include_fenced_brokers=True))
        check(described.error_code, "describing the cluster", described.error_message)
        found = status_of(described, _quorum(cluster), cluster.topics())
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


def status_of(
    described: DescribeClusterResponse, quorum_response: DescribeQuorumResponse | None, topics: Sequence[MetadataResponseTopic]
) -> ClusterStatus:
    """Return the status of a cluster, computed from the brokers' responses. `quorum_response` is None if the cluster does not serve
    DescribeQuorum. Raises `CliError` if the quorum response has an error code."""
    quorum = None
    if quorum_response is not None:
        check(quorum_response.error_code, "describing the quorum", quorum_response.error_message)
        (quorum,) = quorum_response.topics[0].partitions
        check(quorum.error_code, "describing the quorum", quorum.error_message)
    return ClusterStatus(
        described.cluster_id,
        None if quorum is None else quorum.leader_epoch,
        None if quorum is None else quorum.high_watermark,
        [] if quorum is None or quorum_response is None else list(_controllers(quorum, quorum_response)),
        list(_brokers(described, topics, quorum)),
        list(_unhealthy_partitions(topics)),
    )


def _print(found: ClusterStatus) -> None:
    say(f"Cluster {found.cluster_id}")
    if found.controllers:
        say(f"\nControllers, in epoch {found.epoch}; metadata up to offset {found.metadata_offset}")
        rows = [(each.id, each.address, "leads" if each.leads else "follows", each.lag) for each in found.controllers]
        print_table(("controller", "address", "role", "lag"), rows)
    say("\nBrokers")
    columns = ("broker", "address", "rack", "state", "leads", "replicas", "out of sync", "lag")
    print_table(columns, [tuple(asdict(each).values()) for each in found.brokers])
    if not found.under_replicated:
        say("\nEvery partition has a leader, and all its replicas are in sync.")
        return
    say("\nUnder-replicated partitions")
    places = [(each.topic, each.partition, each.leader, _ids(each.in_sync), _ids(each.replicas)) for each in found.under_replicated]
    print_table(("topic", "partition", "leader", "in sync", "replicas"), places)


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids)) or "none"


def _quorum(cluster: AdminClient) -> DescribeQuorumResponse | None:
    """Return the description of the KRaft quorum, or None if the node does not support the request because it has no quorum."""
    try:
        answer: DescribeQuorumResponse = cluster.any(DescribeQuorumRequest([TopicData(CLUSTER_METADATA, [PartitionData(0)])]))
    except NotServed:
        return None
    return answer


def _controllers(quorum: PartitionResult, quorum_response: DescribeQuorumResponse) -> Iterator[ControllerStatus]:
    at = {node.node_id: node.listeners[0] for node in quorum_response.nodes if node.listeners}
    for voter in sorted(quorum.current_voters, key=lambda voter: voter.replica_id):
        listener = at.get(voter.replica_id)
        address = None if listener is None else f"{listener.host}:{listener.port}"
        yield ControllerStatus(voter.replica_id, address, voter.replica_id == quorum.leader_id, _lag(voter, quorum))


def _lag(replica: ReplicaState | None, quorum: PartitionResult | None) -> int | None:
    if replica is None or quorum is None or replica.log_end_offset < 0:
        return None
    return max(0, quorum.high_watermark - replica.log_end_offset)


def _brokers(
    described: DescribeClusterResponse, topics: Sequence[MetadataResponseTopic], quorum: PartitionResult | None
) -> Iterator[BrokerStatus]:
    places: list[Any] = [partition for topic in topics for partition in topic.partitions]
    readers = {} if quorum is None else {each.replica_id: each for each in (*quorum.current_voters, *quorum.observers)}
    for broker in sorted(described.brokers, key=lambda broker: broker.broker_id):
        node = broker.broker_id
        replicas = [partition for partition in places if node in partition.replica_nodes]
        yield BrokerStatus(
            node,
            f"{broker.host}:{broker.port}",
            broker.rack,
            "fenced" if broker.is_fenced else "serves",
            sum(partition.leader_id == node for partition in places),
            len(replicas),
            sum(node not in partition.isr_nodes for partition in replicas),
            _lag(readers.get(node), quorum),
        )


def _unhealthy_partitions(topics: Sequence[MetadataResponseTopic]) -> Iterator[PartitionStatus]:
    for topic in topics:
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index):
            if each.leader_id == NOBODY or set(each.isr_nodes) != set(each.replica_nodes):
                leader = None if each.leader_id == NOBODY else each.leader_id
                replicas, in_sync = sorted(each.replica_nodes), sorted(each.isr_nodes)
                yield PartitionStatus(topic.name or "", each.partition_index, leader, replicas, in_sync)
