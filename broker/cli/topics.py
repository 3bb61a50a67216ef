"""`ottla topics`: list, create, describe, alter and delete topics of any Kafka cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ottla.broker.cli.cluster import EARLIEST, LATEST, AdminClient, TopicPartition, check
from ottla.broker.cli.common import BOOTSTRAP, AsJson, Bootstrap, CliError, Yes, command, pairs, print_json, print_table, say
from ottla.protocol.messages.k03_metadata import MetadataResponseTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

app = typer.Typer(help="List, create, describe, alter and delete topics of any Kafka cluster.", no_args_is_help=True)

TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
SOURCE_DYNAMIC_TOPIC = 1
SET, DELETE = 0, 1

Name = Annotated[str, typer.Argument(metavar="TOPIC")]


@app.command("list")
@command
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics (__consumer_offsets, …).")] = False,
    as_json: AsJson = False,
) -> None:
    """List the topics with their partitions and replication factor."""
    with AdminClient(bootstrap) as cluster:
        topics = [topic for topic in cluster.topics() if internal or not topic.is_internal]
    if as_json:
        print_json([{"name": topic.name, "partitions": len(topic.partitions), "internal": topic.is_internal} for topic in topics])
        return
    print_table(("topic", "partitions", "replicas"), [(t.name, len(t.partitions), _replicas(t)) for t in topics])


def _replicas(topic: MetadataResponseTopic) -> int:
    return len(topic.partitions[0].replica_nodes) if topic.partitions else 0


@app.command("create")
@command
def create(
    topic: Name,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Number of partitions; -1: the broker's num.partitions.")] = -1,
    replicas: Annotated[int, typer.Option("--replication-factor", "-r", help="Replicas; -1: the broker's default.")] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting; may be repeated.")
    ] = None,
) -> None:
    """Create a topic. For example: ottla topics create orders --partitions 6 --config retention.ms=86400000"""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in pairs(config or ()).items()]
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas, configs=configs)
    with AdminClient(bootstrap) as cluster:
        (answer,) = cluster.controller(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)).topics
    check(answer.error_code, f"topic {topic!r} was not created", answer.error_message)
    made = answer.num_partitions if answer.num_partitions >= 0 else partitions
    say(f"created {topic} with {made} partition{'' if made == 1 else 's'}")


@app.command("describe")
@command
def describe(topic: Name, bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a topic's id and settings, and each partition's leader, replicas and offsets."""
    with AdminClient(bootstrap) as cluster:
        (found,) = cluster.topics([topic])
        places = [TopicPartition(topic, partition.partition_index) for partition in found.partitions]
        starts, ends = cluster.offsets(places, EARLIEST), cluster.offsets(places, LATEST)
        settings = _own_settings(cluster, topic)
    rows = []
    for partition in sorted(found.partitions, key=lambda p: p.partition_index):
        place = TopicPartition(topic, partition.partition_index)
        rows.append(
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "epoch": partition.leader_epoch,
                "replicas": partition.replica_nodes,
                "in sync": partition.isr_nodes,
                "start": starts[place],
                "end": ends[place],
            }
        )
    topic_id = str(uuid.UUID(bytes=bytes(found.topic_id)))
    if as_json:
        print_json({"name": topic, "topic_id": topic_id, "internal": found.is_internal, "configs": settings, "partitions": rows})
        return
    say(f"{topic}  id {topic_id}{'  internal' if found.is_internal else ''}")
    say("settings: " + (", ".join(f"{name}={value}" for name, value in settings.items()) or "the broker's defaults"))
    print_table(list(rows[0]) if rows else [], [[_short(cell) for cell in row.values()] for row in rows])


def _short(cell: object) -> object:
    return ",".join(map(str, cell)) if isinstance(cell, list) else cell


def _own_settings(cluster: AdminClient, topic: str) -> dict[str, str | None]:
    """Return the settings of the topic itself, without those inherited from the broker."""
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
    (result,) = cluster.any(DescribeConfigsRequest(resources=[resource])).results
    check(result.error_code, f"settings of topic {topic!r}", result.error_message)
    return {entry.name: entry.value for entry in result.configs if entry.config_source == SOURCE_DYNAMIC_TOPIC}


@app.command("alter")
@command
def alter(
    topic: Name,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", help="Grow to this many; keys map to others then.")] = None,
    config: Annotated[list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="Change a setting; repeatable.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Return a setting to the broker's default; may be repeated.")
    ] = None,
) -> None:
    """Add partitions to a topic, or change its settings. For example: ottla topics alter orders --config retention.bytes=1000000000"""
    changes: list[AlterableConfig] = [
        *(AlterableConfig(name=name, config_operation=SET, value=value) for name, value in pairs(config or ()).items()),
        *(AlterableConfig(name=name, config_operation=DELETE, value=None) for name in unset or ()),
    ]
    if partitions is None and not changes:
        raise CliError("nothing to change: give --partitions, --config or --unset")
    with AdminClient(bootstrap) as cluster:
        if changes:
            _alter_settings(cluster, topic, changes)
            say(f"changed {len(changes)} setting{'' if len(changes) == 1 else 's'} of {topic}")
        if partitions is not None:
            wanted = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
            (result,) = cluster.controller(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)).results
            check(result.error_code, f"partitions of topic {topic!r} were not added", result.error_message)
            say(f"{topic} has {partitions} partitions now")


def _alter_settings(cluster: AdminClient, topic: str, changes: list[AlterableConfig]) -> None:
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes)
    (answer,) = cluster.any(IncrementalAlterConfigsRequest(resources=[resource])).responses
    check(answer.error_code, f"settings of topic {topic!r} were not changed", answer.error_message)


@app.command("delete")
@command
def delete(topics: Annotated[list[str], typer.Argument(metavar="TOPIC…")], bootstrap: Bootstrap = BOOTSTRAP, yes: Yes = False) -> None:
    """Delete topics with all their records."""
    if not yes:
        typer.confirm(f"Delete {', '.join(topics)} with all records?", abort=True, err=True)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic) for topic in topics], topic_names=topics, timeout_ms=TIMEOUT_MS)
    with AdminClient(bootstrap) as cluster:
        answers: list[Any] = cluster.controller(request).responses
    by_name: Mapping[str, Any] = {answer.name: answer for answer in answers}
    for topic in topics:
        check(by_name[topic].error_code, f"topic {topic!r} was not deleted", by_name[topic].error_message)
        say(f"deleted {topic}")
