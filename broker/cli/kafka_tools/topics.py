"""`kafka-topics`: list, create, describe, alter and delete topics (Kafka's TopicCommand)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, ErrorResponse
from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, guarded
from ottla.broker.cli.operations import TOPIC, add_partitions, create_topic, delete_topics, describe_configs
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from ottla.protocol.uuids import encode_uuid

_DEFAULT: Final = 5
_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_ONLY_OF: Final = {
    "config": {"create", "alter"},
    "partitions": {"create", "alter"},
    "replication-factor": {"create"},
    "replica-assignment": {"create", "alter"},
    "topics-with-overrides": {"describe"},
    "if-exists": {"alter", "delete", "describe"},
    "if-not-exists": {"create"},
    "exclude-internal": {"list", "describe"},
}
"""For each option: the actions (create, alter, …) with which it is valid."""
_REPORTS: Final = ("under_replicated_partitions", "unavailable_partitions", "under_min_isr_partitions", "at_min_isr_partitions")


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-topics`."""
    made = ToolParser("kafka-topics", "This tool helps to create, delete, describe, or change a topic.")
    made.cluster_options()
    for action in ("list", "create", "delete", "alter", "describe"):
        made.flag(f"--{action}")
    made.add_argument("--topic", help="the topic; except with --create, a regular expression")
    made.add_argument("--partitions", type=int)
    made.add_argument("--replication-factor", type=int)
    made.add_argument("--replica-assignment", metavar="ID:ID,ID:ID", help="the replicas of each partition")
    made.listed("--config", about="NAME=VALUE, for create")
    for name in ("--if-exists", "--if-not-exists", "--exclude-internal", "--topics-with-overrides"):
        made.flag(name)
    for name in _REPORTS:
        made.flag(f"--{name.replace('_', '-')}")
    return made


@guarded("Error while executing topic command : ")
def main(argv: Sequence[str]) -> int:
    """Run `kafka-topics` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    action = read.one_of(options, "list", "describe", "create", "alter", "delete")
    if action in {"create", "delete", "alter"} and not options.topic:
        read.error('Missing required argument "[topic]"')
    if action == "alter" and options.config:
        read.error('Option combination "[alter],[config]" can\'t be used with "[alter]" (the kafka-configs tool can be used)')
    if action == "alter" and options.partitions is None:
        read.error('Missing required argument "[partitions]"')
    for name, actions in _ONLY_OF.items():
        if getattr(options, name.replace("-", "_")) and action not in actions:
            read.error(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    with cluster_of(options) as cluster:
        {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}[action](cluster, options)
    return 0


def _list(cluster: AdminClient, options: argparse.Namespace) -> None:
    print("\n".join(topic.name or "" for topic in _matching(cluster, options)))


def _matching(cluster: AdminClient, options: argparse.Namespace) -> list[MetadataResponseTopic]:
    found = [topic for topic in cluster.topics() if not (topic.is_internal and options.exclude_internal)]
    if not options.topic:
        return found
    try:
        wanted = re.compile("|".join(item.strip() for item in options.topic.strip("\"'").split(",")))
    except re.error as error:
        raise CliError(f"{options.topic} is an invalid regex: {error}") from None
    return [topic for topic in found if wanted.fullmatch(topic.name or "")]


def _existing(cluster: AdminClient, options: argparse.Namespace) -> list[MetadataResponseTopic]:
    found = _matching(cluster, options)
    if options.topic and not found and not options.if_exists:
        raise CliError(f"Topic '{options.topic}' does not exist as expected")
    return found


def _create(cluster: AdminClient, options: argparse.Namespace) -> None:
    if "." in options.topic or "_" in options.topic:
        print(_COLLISION)
    if options.partitions is not None and options.partitions < 1:
        raise CliError("The partitions must be greater than 0")
    if options.replication_factor is not None and not 1 <= options.replication_factor < 2**15:
        raise CliError("The replication factor must be between 1 and 32767 inclusive")
    placed = [
        CreatableReplicaAssignment(index, _ids(item)) for index, item in enumerate((options.replica_assignment or "").split(",")) if item
    ]
    wanted = CreatableTopic(
        options.topic,
        -1 if placed else options.partitions or -1,
        -1 if placed else options.replication_factor or -1,
        placed,
        [CreatableTopicConfig(*_pair(item)) for item in options.config],
    )
    try:
        create_topic(cluster, wanted)
    except ErrorResponse as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and options.if_not_exists:
            return
        raise
    print(f"Created topic {options.topic}.")


def _ids(item: str) -> list[int]:
    if not all(part.strip().isdecimal() for part in item.split(":")):
        raise CliError(f"{item!r} is not a list of broker ids such as 1:2")
    return [int(part) for part in item.split(":")]


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise CliError('requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".')
    return name.strip(), value.strip()


def _alter(cluster: AdminClient, options: argparse.Namespace) -> None:
    add_partitions(cluster, [topic.name or "" for topic in _existing(cluster, options)], options.partitions)


def _delete(cluster: AdminClient, options: argparse.Namespace) -> None:
    for _ in delete_topics(cluster, [topic.name or "" for topic in _existing(cluster, options)]):
        pass


def _describe(cluster: AdminClient, options: argparse.Namespace) -> None:
    reports = [name for name in _REPORTS if getattr(options, name)]
    for topic in _existing(cluster, options):
        configs = describe_configs(cluster.any, TOPIC, topic.name or "")
        changed = [f"{each.name}={each.value}" for each in configs if each.config_source != _DEFAULT]
        partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        if not reports and not (options.topics_with_overrides and not changed):
            replicas = len(partitions[0].replica_nodes) if partitions else 0
            cells = (f"Topic: {topic.name}", f"TopicId: {encode_uuid(bytes(topic.topic_id))}", f"PartitionCount: {len(partitions)}")
            print("\t".join((*cells, f"ReplicationFactor: {replicas}", f"Configs: {','.join(changed)}")))
        least = next((int(each.value) for each in configs if each.name == "min.insync.replicas"), 1)
        for partition in () if options.topics_with_overrides else partitions:
            if not reports or any(_reported(name, partition, least) for name in reports):
                _print_partition(topic.name or "", partition)


def _reported(name: str, partition: MetadataResponsePartition, least: int) -> bool:
    in_sync, leaderless = len(partition.isr_nodes), partition.leader_id < 0
    match name:
        case "under_replicated_partitions":
            return len(partition.replica_nodes) > in_sync
        case "unavailable_partitions":
            return leaderless
        case "under_min_isr_partitions":
            return leaderless or in_sync < least
    return in_sync == least


def _print_partition(topic: str, partition: MetadataResponsePartition) -> None:
    leader = partition.leader_id if partition.leader_id >= 0 else "none"
    replicas, in_sync = (",".join(map(str, ids)) for ids in (partition.replica_nodes, partition.isr_nodes))
    print(
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {in_sync}"
        "\tElr: \tLastKnownElr: "
    )
