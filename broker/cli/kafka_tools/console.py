"""Shared parts of the console producer and consumer: client properties from a file and from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ottla.broker.cli.basics import CliError, pairs
from ottla.broker.cli.kafka_tools.options import ToolParser
from ottla.broker.cli.security import for_aiokafka, use_properties
from ottla.broker.core.settings_load import SettingsError, read_properties


def client_options(made: ToolParser, kind: str) -> None:
    """Add the options for the client's properties: a file, and single properties. `kind` is "producer" or "consumer", as in the options'
    names."""
    made.add_argument("--command-config", f"--{kind}.config", dest="config", type=Path, metavar="FILE")
    made.listed("--command-property", f"--{kind}-property", dest="client_properties")


def client_properties(options: argparse.Namespace) -> dict[str, str]:
    """Return the client's properties, from the file and from the command line, and use their security settings for all connections. Raises
    `CliError` if the file cannot be read or a security setting is invalid."""
    try:
        found = {**read_properties(options.config), **pairs(options.client_properties)}
    except SettingsError as error:
        raise CliError(str(error)) from None
    use_properties(found)
    return found


def arguments(found: dict[str, str], known: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for aiokafka's clients: security settings, and those properties in `found` that `known` has a converter for.
    Other properties are ignored."""
    return for_aiokafka() | dict(read(found[name]) for name, read in known.items() if name in found)


def is_true(text: str) -> bool:
    """Return whether a property's text is true, as Java parses a boolean."""
    return text.strip().lower() == "true"
