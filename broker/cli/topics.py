"""`ottla topics`: list, create, describe, alter and delete topics of any Kafka cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla.broker.cli.cluster import EARLIEST, LATEST, AdminClient, TopicPartition
from ottla.broker.cli.common import BOOTSTRAP, AsJson, Bootstrap, CliError, Yes, command, pairs, print_json, print_table, say
from ottla.broker.cli.operations import TOPIC, add_partitions, alter_configs, create_topic, delete_topics, describe_configs
from ottla.protocol.messages.k03_metadata import MetadataResponseTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig
from ottla.protocol.uuids import encode_uuid

app = typer.Typer(help="List, create, describe, alter and delete topics of any Kafka cluster.", no_args_is_help=True)

SOURCE_DYNAMIC_TOPIC = 1

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
        answer = create_topic(cluster, wanted)
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
        configs = describe_configs(cluster.any, TOPIC, topic)
    settings = {entry.name: entry.value for entry in configs if entry.config_source == SOURCE_DYNAMIC_TOPIC}
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
    topic_id = encode_uuid(bytes(found.topic_id))
    if as_json:
        print_json({"name": topic, "topic_id": topic_id, "internal": found.is_internal, "configs": settings, "partitions": rows})
        return
    say(f"{topic}  id {topic_id}{'  internal' if found.is_internal else ''}")
    say("settings: " + (", ".join(f"{name}={value}" for name, value in settings.items()) or "the broker's defaults"))
    print_table(list(rows[0]) if rows else [], [[_short(cell) for cell in row.values()] for row in rows])


def _short(cell: object) -> object:
    return ",".join(map(str, cell)) if isinstance(cell, list) else cell


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
    added, removed = pairs(config or ()), unset or []
    if partitions is None and not added and not removed:
        raise CliError("nothing to change: give --partitions, --config or --unset")
    with AdminClient(bootstrap) as cluster:
        if changes := len(added) + len(removed):
            alter_configs(cluster.any, TOPIC, topic, added.items(), removed)
            say(f"changed {changes} setting{'' if changes == 1 else 's'} of {topic}")
        if partitions is not None:
            add_partitions(cluster, [topic], partitions)
            say(f"{topic} has {partitions} partitions now")


@app.command("delete")
@command
def delete(topics: Annotated[list[str], typer.Argument(metavar="TOPIC…")], bootstrap: Bootstrap = BOOTSTRAP, yes: Yes = False) -> None:
    """Delete topics with all their records."""
    if not yes:
        typer.confirm(f"Delete {', '.join(topics)} with all records?", abort=True, err=True)
    with AdminClient(bootstrap) as cluster:
        for topic in delete_topics(cluster, topics):
            say(f"deleted {topic}")
