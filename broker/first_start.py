"""Formats the new data directory of a cluster node at its first start, if `cluster.id` is set. Containers need this, because there no
`kafka-storage format` runs before the start.

Without `cluster.id`, a node with an unformatted directory does not start, as in Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import UserScramCredentialRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels, level_name
from ottla.broker.core.role_settings import MORE_VOTERS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError, data_dir
from ottla.broker.net.listeners import controller_listeners_of, endpoints_of, listeners_of
from ottla.broker.security.add_scram import parsed_scram
from ottla.broker.storage.formatting import format_directory


def format_where_new(settings: BrokerSettings, now_ms: int, scram: Sequence[str] = ()) -> bool:
    """Format the data directory of a node that has `process.roles` and `cluster.id`, unless it is formatted already. Return whether this
    function formatted it.

    A controller without configured voters becomes its quorum's only voter (as with `--standalone`). A new cluster gets the SCRAM users in
    `scram`, each in the format of kafka-storage's `--add-scram`. Raises SettingsError, and LogDirRefused if the directory belongs to
    another node or cluster.
    """
    if settings.cluster_id is None or not (settings.is_cluster_broker or settings.is_controller):
        return False
    dynamic = not settings.controller_quorum_voters
    levels = bootstrap_levels({}, None, dynamic_quorum=dynamic)
    voter_at = own_endpoints(settings) if settings.is_controller and dynamic else []
    users = scram_records(scram) if settings.is_controller else []
    return format_directory(
        data_dir(settings),
        settings.cluster_id,
        settings.node_id,
        levels,
        now_ms,
        is_controller=settings.is_controller,
        ignore_formatted=True,
        voter_at=voter_at,
        users=users,
    )


def scram_records(arguments: Iterable[str]) -> list[UserScramCredentialRecord]:
    """Return metadata records with the SCRAM credentials of users, each given in `arguments` in the format of kafka-storage's
    `--add-scram`. Raises SettingsError for an invalid argument; its text contains no password."""
    records = []
    for argument in arguments:
        try:
            name, kind, kept = parsed_scram(argument, os.urandom)
        except ValueError as error:
            raise SettingsError(f"--add-scram: {error}") from None
        records.append(UserScramCredentialRecord(name, kind.number, kept.salt, kept.stored_key, kept.server_key, kept.iterations))
    return records


def own_endpoints(settings: BrokerSettings) -> list[VoterEndpoint]:
    """Return the endpoints of this node's controller listeners, with which it becomes the quorum's only voter. Raises SettingsError for an
    invalid listener setting."""
    return [VoterEndpoint(at.name, at.host, at.port) for at in endpoints_of(controller_listeners_of(settings))]


@dataclass(frozen=True, slots=True)
class Formatting:
    """The options of `ottla format` and `kafka-storage format`, except the cluster id. `features` holds the arguments of `--feature`,
    `scram` those of `--add-scram`."""

    ignore_formatted: bool = False
    release_version: str | None = None
    features: Sequence[str] = ()
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: str | None = None
    scram: Sequence[str] = ()


def format_node(settings: BrokerSettings, cluster_id: str, now_ms: int, formatting: Formatting) -> str:
    """Format the data directory of a node with `process.roles`, as `kafka-storage format` does. Return the text to print. Raises
    SettingsError for invalid settings or options, LogDirRefused if the directory cannot be formatted, UnknownLevel for a feature level that
    does not exist."""
    if formatting.initial_controllers:
        raise SettingsError(f"--initial-controllers is for Apache Kafka's controllers; {MORE_VOTERS}")
    if not settings.process_roles:
        raise SettingsError("only a node with process.roles is formatted; a standalone node is formatted by its first start (cluster.id)")
    listeners_of(settings)
    voter_at = _voter_at(settings, formatting)
    levels = bootstrap_levels(
        _levels(formatting.features), formatting.release_version, dynamic_quorum=not settings.controller_quorum_voters
    )
    path = data_dir(settings)
    made = format_directory(
        path,
        cluster_id,
        settings.node_id,
        levels,
        now_ms,
        is_controller=settings.is_controller,
        ignore_formatted=formatting.ignore_formatted,
        voter_at=voter_at,
        users=scram_records(formatting.scram),
    )
    if not made:
        return "All of the log directories are already formatted."
    kind = "dynamic metadata voter" if voter_at else "metadata"
    return f"Formatting {kind} directory {path} with {METADATA_VERSION} {level_name(levels[METADATA_VERSION])}."


def _voter_at(settings: BrokerSettings, formatting: Formatting) -> list[VoterEndpoint]:
    """Return the endpoints of this controller, if it becomes the quorum's only voter; an empty list if it does not, or the node is no
    controller. Raises SettingsError if the options contradict the settings, or a controller has no voter."""
    if not settings.is_controller:
        if formatting.standalone:
            raise SettingsError("--standalone can only be used on a controller")
        return []
    if settings.controller_quorum_voters:
        if formatting.standalone:
            raise SettingsError("--standalone cannot be used where controller.quorum.voters names the voter")
        return []
    if formatting.no_initial_controllers or not formatting.standalone:
        raise SettingsError(f"controller.quorum.voters is not set on this controller: --standalone makes it the voter; {MORE_VOTERS}")
    return own_endpoints(settings)


def _levels(features: Iterable[str]) -> dict[str, int]:
    levels = {}
    for item in features:
        name, equals, level = item.partition("=")
        if not equals or not level.strip().isdecimal():
            raise SettingsError(f"--feature {item}: expected NAME=LEVEL")
        levels[name.strip()] = int(level)
    return levels
