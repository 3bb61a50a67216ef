"""`ottla format`: formats the data directory of a cluster node, with the options of Kafka's `kafka-storage format`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.broker.cli.common import CliError, command
from ottla.broker.cluster.release_levels import UnknownLevel
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.first_start import Formatting, format_node
from ottla.broker.storage.errors import LogDirRefused


@command
def format_(
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", "-t", help="The cluster's id; `ottla kafka-storage random-uuid` generates one.")
    ],
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The node's server.properties.")],
    *,
    ignore_formatted: Annotated[bool, typer.Option("--ignore-formatted", "-g", help="Succeed if it is formatted already.")] = False,
    release_version: Annotated[
        str | None, typer.Option("--release-version", "-r", metavar="RELEASE", help="Use the feature levels of this Kafka release.")
    ] = None,
    feature: Annotated[list[str] | None, typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="Set a feature's level.")] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="Make this controller the quorum's only voter. For controllers only.")
    ] = False,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="Store no voters: the node finds the quorum by its settings.")
    ] = False,
    initial_controllers: Annotated[
        str | None, typer.Option("--initial-controllers", "-I", help="Not supported: for Apache Kafka's controllers only.")
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option("--add-scram", "-S", metavar="MECHANISM=[name=…,password=…]", help="Create a SCRAM user; may be repeated."),
    ] = None,
) -> None:
    """Format the data directory of a broker that joins a cluster, or of the cluster's controller.

    For example: ottla format --cluster-id MkU3OEVBNTcwNTJENDM2Qg --config broker.properties
    """
    try:
        settings = load({}, os.environ, config).settings
        formatting = Formatting(
            ignore_formatted=ignore_formatted,
            release_version=release_version,
            features=feature or (),
            standalone=standalone,
            no_initial_controllers=no_initial_controllers,
            initial_controllers=initial_controllers,
            scram=add_scram or (),
        )
        print(format_node(settings, cluster_id, Clock().now_ms(), formatting))
    except (SettingsError, LogDirRefused, UnknownLevel) as error:
        raise CliError(str(error)) from error
