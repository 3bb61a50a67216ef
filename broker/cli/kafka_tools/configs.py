"""`kafka-configs`: describes and changes settings of topics, brokers and groups, quotas, and SCRAM users (Kafka's ConfigCommand)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, check
from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, comma_list, guarded
from ottla.broker.cli.kafka_tools.quotas import QUOTAS, alter_quotas, print_quotas
from ottla.broker.cli.operations import SCRAM_NAMES, Ask, alter_configs, alter_scram, describe_configs, list_groups, scram_credential
from ottla.broker.core.settings_load import read_properties
from ottla.broker.security.scram import SCRAM_KINDS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest

_RESOURCES: Final = {"topics": (2, 1), "brokers": (4, 2), "broker-loggers": (8, None), "client-metrics": (16, 7), "groups": (32, 8)}
"""For each kind of resource: its number in the protocol (ConfigResource.Type), and the config source of its dynamic settings in
DescribeConfigs responses. With None as the source, all settings of the resource are printed, whatever their source."""
_TYPES: Final = ("topics", "clients", "users", "brokers", "broker-loggers", "ips", "client-metrics", "groups")
_SOURCES: Final = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
_DEFAULT_BROKER_SOURCE: Final = 3
_ITERATIONS: Final = 4096
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?\d*),)?password=(.*)")

Entities = list[tuple[str, str | None]]
"""Entities (topics, brokers, users, …), each as (type, name). The empty name stands for the default entity, None for all entities of the
type."""


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-configs`."""
    made = ToolParser("kafka-configs", "This tool helps to manipulate and describe entity config.")
    made.cluster_options()
    for name in ("--alter", "--describe", "--all"):
        made.flag(name)
    made.listed("--entity-type")
    made.listed("--entity-name")
    made.add_argument("--entity-default", action="append_const", const="", dest="entity_name")
    made.add_argument("--add-config")
    made.add_argument("--add-config-file", type=Path)
    made.listed("--delete-config")
    for kind in _TYPES:
        made.listed(f"--{kind[:-1] if kind != 'client-metrics' else kind}", dest=f"of_{kind}")
    for kind in ("clients", "users", "brokers", "ips"):
        made.add_argument(f"--{kind[:-1]}-defaults", action="append_const", const="", dest=f"of_{kind}")
    made.flag("--force")
    return made


@guarded("", aside=True)
def main(argv: Sequence[str]) -> int:
    """Run `kafka-configs` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    action = read.one_of(options, "alter", "describe")
    entities = _entities(options)
    if not entities:
        read.error("At least one entity type must be specified")
    with cluster_of(options) as cluster:
        (_alter if action == "alter" else _describe)(cluster, entities, options)
    return 0


def _entities(options: argparse.Namespace) -> Entities:
    names: list[str | None] = [*options.entity_name, *[None] * len(options.entity_type)]
    found: Entities = list(zip(options.entity_type, names, strict=False))
    found += [(kind, name) for kind in _TYPES for name in getattr(options, f"of_{kind}")]
    for kind, _ in found:
        if kind not in _TYPES:
            raise CliError(f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)}")
    return found


def _alter(cluster: AdminClient, entities: Entities, options: argparse.Namespace) -> None:
    added = comma_list(options.add_config or "")
    if options.add_config_file is not None:
        added += read_properties(options.add_config_file).items()
    removed = [name.strip() for item in options.delete_config for name in item.split(",")]
    if not added and not removed:
        raise CliError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    kind, name = entities[0]
    if name is None:
        raise CliError(f"An entity name must be specified with --alter of {', '.join(kind for kind, _ in entities)}")
    if kind in _RESOURCES:
        alter_configs(_of_broker(cluster, kind, name), _RESOURCES[kind][0], name, added, removed)
    elif kind == "users" and len(entities) == 1 and any(each in SCRAM_KINDS for each in [*dict(added), *removed]):
        _alter_scram(cluster, name, added, removed)
    else:
        if unknown := [each for each in [*dict(added), *removed] if each not in QUOTAS]:
            raise CliError(
                f"Only quota and SCRAM credential configs can be set for '{kind}'. Unexpected config names: {', '.join(unknown)}"
            )
        alter_quotas(cluster, entities, added, removed)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _of_broker(cluster: AdminClient, kind: str, name: str) -> Ask:
    """Return the function that sends requests about the entity `name`. If it is a broker, the requests go to that broker, which alone can
    describe and change its own settings and loggers; otherwise to any broker. Raises CliError for a broker id that is no number."""
    if kind in {"brokers", "broker-loggers"} and name:
        if not name.isdecimal():
            raise CliError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
        return partial(cluster.node, int(name))
    return cluster.any


def _alter_scram(cluster: AdminClient, user: str, added: Sequence[tuple[str, str]], removed: Sequence[str]) -> None:
    upsertions = []
    for mechanism, text in added:
        kind, match = SCRAM_KINDS.get(mechanism), _CREDENTIAL.fullmatch(text)
        if kind is None or match is None:
            raise CliError(f"Invalid credential property {mechanism}")
        iterations = _ITERATIONS if match[1] in {None, "-1"} else int(match[1] or 0)
        if iterations < kind.min_iterations:
            raise CliError(f"Iterations {iterations} is less than the minimum {kind.min_iterations} required for {mechanism}")
        upsertions.append(scram_credential(user, mechanism, match[2], iterations))
    alter_scram(cluster, user, [each for each in removed if each in SCRAM_KINDS], upsertions)


def _describe(cluster: AdminClient, entities: Entities, options: argparse.Namespace) -> None:
    kind, name = entities[0]
    if kind in _RESOURCES:
        for each in _names(cluster, kind) if name is None else [name]:
            _describe_resource(cluster, kind, each, everything=options.all)
        return
    print_quotas(cluster, entities)
    if len(entities) == 1 and kind == "users" and name != "":
        _describe_scram(cluster, name)


def _names(cluster: AdminClient, kind: str) -> list[str]:
    match kind:
        case "topics":
            return [topic.name or "" for topic in cluster.topics()]
        case "brokers" | "broker-loggers":
            return [*(str(broker.node_id) for broker in cluster.metadata().brokers), ""]
        case "groups":
            return sorted({group.group_id for group in list_groups(cluster)} | _configured(cluster, kind))
    return sorted(_configured(cluster, kind))


def _configured(cluster: AdminClient, kind: str) -> set[str]:
    """Return the names of the resources of this kind that have dynamic settings."""
    answer = cluster.any(ListConfigResourcesRequest([_RESOURCES[kind][0]]))
    check(answer.error_code, "The broker rejected the request")
    return {each.resource_name for each in answer.config_resources}


def _describe_resource(cluster: AdminClient, kind: str, name: str, *, everything: bool) -> None:
    number, source = _RESOURCES[kind]
    if not everything and name not in _names(cluster, kind):
        print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    if kind == "brokers" and not name:
        source = _DEFAULT_BROKER_SOURCE
    configs = describe_configs(_of_broker(cluster, kind, name), number, name, synonyms=True)
    whose = f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {name}" if name else f"Default configs for {kind} in the cluster"
    print(f"{whose} are:")
    for entry in sorted(configs, key=lambda entry: str(entry.name)):
        if everything or source is None or entry.config_source == source:
            synonyms = ", ".join(f"{_SOURCES[each.source]}:{each.name}={_shown(each.value)}" for each in entry.synonyms)
            sensitive = str(entry.is_sensitive).lower()
            print(f"  {entry.name}={_shown(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _describe_scram(cluster: AdminClient, name: str | None) -> None:
    answer = cluster.any(DescribeUserScramCredentialsRequest(None if name is None else [UserName(name)]))
    check(answer.error_code, "The broker rejected the request", answer.error_message)
    for user in answer.results:
        if user.error_code == ErrorCode.NONE:
            shown = ", ".join(
                f"{SCRAM_NAMES.get(each.mechanism, each.mechanism)}=iterations={each.iterations}" for each in user.credential_infos
            )
            print(f"SCRAM credential configs for user-principal '{user.user}' are {shown}")
        elif name is None or user.error_code != ErrorCode.RESOURCE_NOT_FOUND:
            print(f"Error retrieving SCRAM credential configs for user-principal '{user.user}': {user.error_message}")
