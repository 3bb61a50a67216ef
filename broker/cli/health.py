"""`ottla health`: does the broker of this machine answer? For the health checks of containers and service managers.

Rules: it asks what any client asks first (ApiVersions), of the first listener that the broker's own settings name in the environment; it
imports neither the broker nor the command line's libraries, because a health check is a new process every few seconds; one that has to
show who it is pays for what that needs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest

TIMEOUT_S = 3.0
CLIENT_ID = "ottla-health"
DEFAULT_ADDRESS = "127.0.0.1:9092"
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_LISTENER = re.compile(r"\s*[^:/]+://\[?([^\],]*?)\]?:(\d+)")


def parser() -> argparse.ArgumentParser:
    """The options of `ottla health`."""
    made = argparse.ArgumentParser(
        prog="ottla health",
        description="Ask a broker whether it serves: exit code 0 when it answers ApiVersions, 1 when it does not. "
        "For example: ottla health -b localhost:19092",
    )
    made.add_argument(
        "--broker",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help=f"the broker to ask (default: the first of OTTLA_LISTENERS, or else {DEFAULT_ADDRESS})",
    )
    made.add_argument(
        "--config",
        metavar="FILE",
        help="how to come in, as client.properties of Kafka's tools say it (default: OTTLA_CLIENT_CONFIG); TLS needs it, a log-in does not",
    )
    made.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help=f"how long to wait (default {TIMEOUT_S:g})")
    return made


def health() -> None:
    """Ask a broker whether it serves (`ottla health --help` has its options)."""
    raise SystemExit(main(["--help"]))


def main(argv: Sequence[str]) -> int:
    """Ask once; the process's exit code."""
    options = parser().parse_args(argv)
    address = options.broker or first_listener(os.environ)
    config = options.config or os.environ.get("OTTLA_CLIENT_CONFIG")
    try:
        ask(address, options.timeout, config)
    except (OSError, ValueError, ProtocolError) as error:
        print(f"ottla health: {address}: {error}", file=sys.stderr)
        return 1
    print(f"{address} serves")
    return 0


def first_listener(env: Mapping[str, str]) -> str:
    """Where a broker with this environment can be asked on its own machine, as host:port."""
    found = _LISTENER.match(env.get("OTTLA_LISTENERS", ""))
    if found is None:
        return DEFAULT_ADDRESS
    return f"{_EVERY_ADDRESS.get(found[1], found[1])}:{found[2]}"


def ask(address: str, timeout_s: float = TIMEOUT_S, config: str | None = None) -> None:
    """Raises OSError or ProtocolError where the broker at host:port does not answer ApiVersions in time, ValueError for a bad address, a
    file `config` that cannot be used, and a broker that does not let its user in."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("this is no address: it looks like localhost:9092")
    with _connected(host.strip("[]"), int(port), timeout_s, config) as client:
        client.highest_version(ApiVersionsRequest)


def _connected(host: str, port: int, timeout_s: float, config: str | None) -> Client:
    if config is None:
        return Client(host, port, client_id=CLIENT_ID, timeout_s=timeout_s)
    from ottla.broker.cli.common import CliError  # noqa: PLC0415 # heavy, and only where a file is given
    from ottla.broker.cli.security import connect, use  # noqa: PLC0415 # as above

    try:
        use(Path(config))
        return connect(host, port, CLIENT_ID, timeout_s)
    except CliError as error:
        raise ValueError(str(error)) from error
