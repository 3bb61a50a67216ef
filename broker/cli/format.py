"""`ottla format`: makes the data directory of a cluster's node, as Kafka's `kafka-storage format` does, with the same options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ottla.broker.cli.common import CliError, command
from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import UserScramCredentialRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import UnknownLevel, bootstrap_levels, level_name
from ottla.broker.core.clock import Clock
from ottla.broker.core.membership import MORE_VOTERS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError, data_dir, load
from ottla.broker.first_start import own_endpoints
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.add_scram import parsed_scram
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.formatting import format_directory


@command
def format_(
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", "-t", help="The id of the cluster; Kafka's `kafka-storage random-uuid` draws one.")
    ],
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The node's server.properties.")],
    *,
    ignore_formatted: Annotated[bool, typer.Option("--ignore-formatted", "-g", help="Leave a formatted directory as it is.")] = False,
    release_version: Annotated[
        str | None, typer.Option("--release-version", "-r", metavar="RELEASE", help="Levels of features: those of this release of Kafka.")
    ] = None,
    feature: Annotated[list[str] | None, typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="The level of one feature.")] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the quorum's one voter. For controllers only.")
    ] = False,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="The controllers name the quorum: always so on a broker.")
    ] = False,
    initial_controllers: Annotated[
        str | None, typer.Option("--initial-controllers", "-I", help="For Apache Kafka's controllers only.")
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option("--add-scram", "-S", metavar="MECHANISM=[name=…,password=…]", help="A user of the new cluster; may be repeated."),
    ] = None,
) -> None:
    """Format the data directory of a broker that joins a cluster, or of its controller.

    For example: ottla format --cluster-id MkU3OEVBNTcwNTJENDM2Qg --config broker.properties
    """
    if initial_controllers:
        raise CliError(f"--initial-controllers is for Apache Kafka's controllers; {MORE_VOTERS}")
    try:
        settings = _settings(config)
        voter_at = _voter_at(settings, standalone=standalone, no_voters=no_initial_controllers)
        dynamic = not settings.controller_quorum_voters
        levels = bootstrap_levels(_levels(feature or ()), release_version, dynamic_quorum=dynamic)
        path = data_dir(settings)
        now_ms = Clock().now_ms()
        made = format_directory(
            path,
            cluster_id,
            settings.node_id,
            levels,
            now_ms,
            ignore_formatted=ignore_formatted,
            voter_at=voter_at,
            users=[_user(argument) for argument in add_scram or ()],
        )
    except (SettingsError, LogDirRefused, UnknownLevel) as error:
        raise CliError(str(error)) from error
    if made:
        kind = "dynamic metadata voter" if voter_at else "metadata"
        print(f"Formatting {kind} directory {path} with {METADATA_VERSION} {level_name(levels[METADATA_VERSION])}.")
    else:
        print("All of the log directories are already formatted.")


def _settings(config: Path) -> BrokerSettings:
    settings = load({}, os.environ, config).settings
    if not settings.process_roles:
        raise CliError(f"{config}: only a node with process.roles is formatted; a node of its own is by its first start (cluster.id)")
    listeners_of(settings)
    return settings


def _voter_at(settings: BrokerSettings, *, standalone: bool, no_voters: bool) -> list[VoterEndpoint]:
    """Where the quorum's one voter is reached, where voters can change and this is it."""
    if not settings.is_controller:
        if standalone:
            raise CliError("--standalone can only be used on a controller")
        return []
    if settings.controller_quorum_voters:
        if standalone:
            raise CliError("--standalone cannot be used where controller.quorum.voters names the voter")
        return []
    if no_voters or not standalone:
        raise CliError(f"controller.quorum.voters is not set on this controller: --standalone makes it the voter; {MORE_VOTERS}")
    return own_endpoints(settings)


def _user(argument: str) -> UserScramCredentialRecord:
    try:
        name, kind, kept = parsed_scram(argument, os.urandom)
    except ValueError as error:
        raise CliError(f"--add-scram: {error}") from None
    return UserScramCredentialRecord(name, kind.number, kept.salt, kept.stored_key, kept.server_key, kept.iterations)


def _levels(features: Sequence[str]) -> dict[str, int]:
    levels = {}
    for item in features:
        name, equals, level = item.partition("=")
        if not equals or not level.strip().isdecimal():
            raise CliError(f"--feature {item}: expected NAME=LEVEL")
        levels[name.strip()] = int(level)
    return levels
