"""`ottla health`: checks that the broker of this machine answers, for health checks of containers and service managers.

Rules:
- The check sends ApiVersions, which every client sends first, to the first client listener in the environment (Ottla's variables or those
  of Kafka's images).
- With TLS and without a client configuration, the certificate is not verified, because the check sends no secrets and uses nothing of the
  response except that it arrived.
- The module imports neither the broker nor the command line's libraries, because a health check is a new process every few seconds. Only a
  check that must authenticate imports more.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.printable import reason_of

TIMEOUT_S = 3.0
CLIENT_ID = "ottla-health"
DEFAULT_ADDRESS = "127.0.0.1:9092"
_EVERY_ADDRESS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_LISTENER = re.compile(r"\s*([^:/,]+)://\[?([^\],]*?)\]?:(\d+)")
_PREFIXES = ("OTTLA_", "KAFKA_CFG_", "KAFKA_")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `ottla health`."""
    made = argparse.ArgumentParser(
        prog="ottla health",
        description="Check that a broker serves: exit code 0 if it answers ApiVersions, 1 if it does not. "
        "For example: ottla health -b localhost:19092",
    )
    made.add_argument(
        "--broker",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help=f"the broker to check (default: the first of OTTLA_LISTENERS or KAFKA_LISTENERS, or else {DEFAULT_ADDRESS})",
    )
    made.add_argument(
        "--config",
        metavar="FILE",
        help="client security settings, as in Kafka's client.properties (default: OTTLA_CLIENT_CONFIG); needed for a TLS listener that "
        "is given with --broker, not for SASL",
    )
    made.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help=f"how long to wait (default {TIMEOUT_S:g})")
    return made


def health() -> None:
    """Check that a broker answers (`ottla health --help` lists the options)."""
    raise SystemExit(main(["--help"]))


def main(argv: Sequence[str]) -> int:
    """Check once that a broker answers, and print the result; return the process's exit code."""
    options = parser().parse_args(argv)
    address, secure = (options.broker, False) if options.broker else first_listener(os.environ)
    config = options.config or os.environ.get("OTTLA_CLIENT_CONFIG")
    try:
        ask(address, options.timeout, config, secure=secure)
    except (OSError, ValueError, ProtocolError) as error:
        hint = "; if it requires TLS or SASL, give --config client.properties" if type(error) is ConnectionError else ""
        print(f"ottla health: {address}: {reason_of(error)}{hint}", file=sys.stderr)
        return 1
    print(f"{address} serves")
    return 0


def first_listener(env: Mapping[str, str]) -> tuple[str, bool]:
    """Return the host:port at which the node that these environment variables configure can be reached from its own machine, and whether
    that listener uses TLS.

    A controller listener is used only if there is no other one; it also answers ApiVersions.
    """
    for prefix in _PREFIXES:
        protocols = dict(
            item.strip().upper().split(":", 1) for item in env.get(f"{prefix}LISTENER_SECURITY_PROTOCOL_MAP", "").split(",") if ":" in item
        )
        controllers = {name.strip().upper() for name in env.get(f"{prefix}CONTROLLER_LISTENER_NAMES", "").split(",")}
        for variable in ("LISTENERS", "ADVERTISED_LISTENERS"):
            listeners = _LISTENER.findall(env.get(prefix + variable, ""))
            for name, host, port in sorted(listeners, key=lambda listener: listener[0].upper() in controllers):
                here = "127.0.0.1" if variable == "ADVERTISED_LISTENERS" else _EVERY_ADDRESS.get(host, host)
                return f"{here}:{port}", protocols.get(name.upper(), name.upper()).endswith("SSL")
    return DEFAULT_ADDRESS, False


def ask(address: str, timeout_s: float = TIMEOUT_S, config: str | None = None, *, secure: bool = False) -> None:
    """Send ApiVersions to the broker at `address`, `host:port`. `config` is a file with client security settings; without it, `secure` says
    whether to use TLS.

    Raises OSError or ProtocolError if the broker does not answer in time; ValueError for an invalid address, a `config` file that cannot be
    used, or failed authentication.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("this is not an address: use HOST:PORT, such as localhost:9092")
    with _connected(host.strip("[]"), int(port), timeout_s, config, secure=secure) as client:
        client.highest_version(ApiVersionsRequest)


def _connected(host: str, port: int, timeout_s: float, config: str | None, *, secure: bool) -> Client:
    if config is None:
        wrap: Callable[[socket.socket], socket.socket] = _encrypted if secure else lambda connected: connected
        return Client(host, port, client_id=CLIENT_ID, timeout_s=timeout_s, wrap=wrap)
    from ottla.broker.cli.basics import CliError  # noqa: PLC0415 # only where a file is given
    from ottla.broker.cli.security import connect, security_in  # noqa: PLC0415 # only where a file is given; heavy

    try:
        return connect(host, port, CLIENT_ID, timeout_s, security_in(Path(config)))
    except CliError as error:
        raise ValueError(str(error)) from error


def _encrypted(connected: socket.socket) -> socket.socket:
    import ssl  # noqa: PLC0415 # most checks do not use TLS

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connected)
