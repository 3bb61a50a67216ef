"""`ottla format`: makes the data directory of a cluster's node, as Kafka's `kafka-storage format` does, with the same options."""

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
        str, typer.Option("--cluster-id", "-t", help="The id of the cluster; `ottla kafka-storage random-uuid` draws one.")
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
    try:
        settings = load({}, os.environ, config).settings
        asked = Formatting(
            ignore_formatted=ignore_formatted,
            release_version=release_version,
            features=feature or (),
            standalone=standalone,
            no_initial_controllers=no_initial_controllers,
            initial_controllers=initial_controllers,
            scram=add_scram or (),
        )
        print(format_node(settings, cluster_id, Clock().now_ms(), asked))
    except (SettingsError, LogDirRefused, UnknownLevel) as error:
        raise CliError(str(error)) from error
