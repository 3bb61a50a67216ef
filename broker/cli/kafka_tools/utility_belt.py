"""`cub` and `ub` of Confluent's images: wait for brokers, and check variables and paths."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient
from ottla.broker.cli.kafka_tools.options import ToolParser, read_config

_PAUSE_S: Final = 0.2
_CHECKS: Final = {"writable": os.W_OK, "readable": os.R_OK, "executable": os.X_OK, "existence": os.F_OK, "exists": os.F_OK}


def parser() -> ToolParser:
    """Return the parser of the options of `cub` and `ub`, two tools in Confluent's images."""
    made = ToolParser("cub", "Wait for brokers, and check variables and paths.")
    commands = made.add_subparsers(dest="command", required=True)
    ready = commands.add_parser("kafka-ready")
    ready.add_argument("expected_brokers", type=int)
    ready.add_argument("timeout", type=float, help="seconds")
    ready.add_argument("--bootstrap_broker_list", "--bootstrap-servers", "-b", dest="bootstrap_server")
    ready.add_argument("--config", "-c", type=Path, dest="command_config")
    ready.add_argument("--zookeeper_connect", "-z", help=argparse.SUPPRESS)
    ready.add_argument("--security_protocol", "-s", help=argparse.SUPPRESS)
    zookeeper = commands.add_parser("zk-ready")
    zookeeper.add_argument("connect_string")
    zookeeper.add_argument("timeout")
    commands.add_parser("ensure").add_argument("name")
    path = commands.add_parser("path")
    path.add_argument("path")
    path.add_argument("mode", choices=_CHECKS)
    commands.add_parser("listeners").add_argument("advertised")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `cub` or `ub`, two tools of Confluent's images, with the arguments `argv`; return the exit code."""
    options = parser().parse_args(argv)
    match options.command:
        case "kafka-ready":
            return _kafka_ready(options)
        case "zk-ready":
            print("Ottla does not use ZooKeeper: not waiting for it.")
            return 0
        case "ensure":
            return _judged(bool(os.environ.get(options.name)), f"environment variable {options.name!r} is not set")
        case "path":
            return _judged(os.access(options.path, _CHECKS[options.mode]), f"{options.path}: no {options.mode}")
    print(re.sub(r"://(\[[^\]]*\]|[^:,]*):", "://0.0.0.0:", options.advertised))
    return 0


def _judged(good: bool, problem: str) -> int:
    if not good:
        print(problem, file=sys.stderr)
    return 0 if good else 1


def _kafka_ready(options: argparse.Namespace) -> int:
    """Wait until the cluster has the expected number of brokers; return 0, or 1 after the timeout. Without a broker's address (or with
    ZooKeeper's only), ask localhost:9092, this container's broker."""
    deadline = time.monotonic() + options.timeout
    while True:
        try:
            read_config(options)
            with AdminClient(options.bootstrap_server or "localhost:9092") as cluster:
                found = len(cluster.metadata().brokers)
            problem = f"{found} of {options.expected_brokers} brokers are registered"
            if found >= options.expected_brokers:
                return 0
        except CliError as error:
            problem = str(error)
        if time.monotonic() + _PAUSE_S > deadline:
            print(problem, file=sys.stderr)
            return 1
        time.sleep(_PAUSE_S)
