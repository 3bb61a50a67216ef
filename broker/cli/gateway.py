"""`ottla gateway` and `ottla tap`: a gateway (a proxy that can inject faults and log requests) in front of any Kafka cluster.

They use argparse: Typer's libraries would be a third of the process's memory for as long as the gateway runs.
"""

from __future__ import annotations

import argparse
import errno
import os
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ottla.broker.cli.admin_ports import PORT, AdminPorts, wants_admin
from ottla.broker.cli.basics import CliError, at_least, duration_ms, help_formatter, host_port, port_number
from ottla.broker.cli.logs import log_to_stderr
from ottla.broker.cli.wire_logs import STANDARD_OUTPUT, wire_log
from ottla.broker.core.clock import Clock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, parse_rule
from ottla.broker.faults.wire_log import WireLog
from ottla.broker.gateway.address_book import Address
from ottla.broker.net.gateway import CONNECTIONS_DEFAULT, IDLE_DEFAULT_MS, Gateway, GatewaySettings
from ottla.broker.process import StartError, run_node
from ottla.protocol.printable import printable

EXIT_USAGE = 2
ADMIN_HOST = "127.0.0.1"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `ottla gateway`."""
    made = _parser(
        "gateway",
        "Stand between programs and any Kafka cluster: clients connect to the gateway, stay there, and meet the faults that you script. "
        "The gateway rewrites the brokers' addresses in responses, so that clients reach every broker through it. Everything else passes "
        "as it is: records, transactions, also APIs that Ottla does not know. It needs no credentials: clients authenticate through it. "
        "For example: ottla gateway --to localhost:9092, then use localhost:19092 as the bootstrap server (docs/gateway.md).",
    )
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1; 0.0.0.0 for all)")
    made.add_argument(
        "--advertised-host", metavar="HOST", help="the host name that clients get (default: the address to which they connect)"
    )
    made.add_argument(
        "--tls-certificate", type=Path, metavar="FILE", help="PEM file with a certificate and its key: clients have to use TLS"
    )
    made.add_argument(
        "--tls-client-ca", type=Path, metavar="FILE", help="PEM file with CAs: clients have to present a certificate of one of them"
    )
    made.add_argument(
        "--max-connections",
        type=at_least(1),
        default=CONNECTIONS_DEFAULT,
        metavar="COUNT",
        help="maximum number of clients' connections; more are closed at once",
    )
    made.add_argument(
        "--max-idle-ms",
        type=at_least(-1),
        default=IDLE_DEFAULT_MS,
        metavar="MS",
        help=f"close a connection on which nothing moves for this long (default {IDLE_DEFAULT_MS}; -1: never)",
    )
    made.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="RULE",
        help="a fault, such as drop-ack:api=Produce,share=0.05,seed=7 (docs/faults.md); may be repeated",
    )
    made.add_argument(
        "--admin-port",
        type=port_number,
        metavar="PORT",
        help="serve faults over HTTP on this port; its token is OTTLA_ADMIN_TOKEN, or printed",
    )
    made.add_argument("--admin-host", default=ADMIN_HOST, metavar="HOST", help=f"address to bind the admin port to (default {ADMIN_HOST})")
    made.add_argument(
        "--console",
        action="store_true",
        help=f"serve a page that shows requests and responses as they pass at /console of the admin port (default port {PORT}; "
        "docs/console.md)",
    )
    made.add_argument("--log", metavar="FILE", help="write a line for each request and its result to this file; - for standard output")
    _add_log_options(made, "--log-")
    made.add_argument("--port-file", type=Path, metavar="FILE", help="write the port to this file once the gateway listens")
    made.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="how much to log (default info)")
    return made


def tap_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `ottla tap`."""
    made = _parser(
        "tap",
        "Show the requests of programs and their results as they pass: a gateway whose log is standard output. "
        "For example: ottla tap --to localhost:9092 --only api=Produce, then use localhost:19092 as the bootstrap server "
        "(docs/gateway.md).",
    )
    made.set_defaults(**{**vars(parser().parse_args(["--to", ""])), "log": STANDARD_OUTPUT})
    _add_log_options(made, "--")
    return made


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"ottla {name}", formatter_class=help_formatter, description=description)
    made.add_argument(
        "--to", required=True, metavar="HOST:PORT[,…]", help="brokers of the cluster; one that can be reached is enough (required)"
    )
    made.add_argument(
        "--to-config",
        type=Path,
        metavar="FILE",
        help="TLS towards the cluster: security.protocol and ssl.… as in Kafka's client.properties",
    )
    made.add_argument(
        "--port",
        type=port_number,
        default=19_092,
        help="the port for clients; a broker gets this plus 1 plus its node id (default 19092; 0: any free ports)",
    )
    return made


def _add_log_options(made: argparse.ArgumentParser, prefix: str) -> None:
    made.add_argument(f"{prefix}json", action="store_true", dest="log_json", help="write all decoded fields as JSON lines")
    made.add_argument(
        f"{prefix}only",
        action="append",
        default=[],
        dest="log_only",
        metavar="FILTER",
        help="log only such requests: api=Fetch,topic=orders-*,group=…,client_id=…; may be repeated",
    )
    made.add_argument(f"{prefix}errors", action="store_true", dest="log_errors", help="log only results with an error")
    made.add_argument(
        f"{prefix}slower-than",
        type=duration_ms,
        default=0,
        dest="log_slower_than",
        metavar="MS",
        help="log only what took at least so long",
    )


def gateway() -> None:
    """Run a proxy in front of any Kafka cluster that injects faults into the requests of its clients (`ottla gateway --help` lists the
    options)."""
    raise SystemExit(main(["--help"]))


def tap() -> None:
    """Run a proxy in front of any Kafka cluster that prints the requests of its clients with their results (`ottla tap --help` lists the
    options)."""
    raise SystemExit(tap_main(["--help"]))


def main(argv: Sequence[str]) -> int:
    """Run `ottla gateway` until it is stopped; return the process's exit code."""
    return _run("gateway", parser().parse_args(argv))


def tap_main(argv: Sequence[str]) -> int:
    """Run `ottla tap`, a gateway that logs requests to standard output, until it is stopped; return the process's exit code."""
    return _run("tap", tap_parser().parse_args(argv))


def _run(name: str, options: argparse.Namespace) -> int:
    log_to_stderr(options.log_level)
    try:
        return _serve(options)
    except CliError as error:
        print(printable(f"ottla {name}: {error}"), file=sys.stderr)
        return error.exit_code


def _serve(options: argparse.Namespace) -> int:
    _check_effects(options)
    settings = GatewaySettings(
        _cluster(options.to),
        options.host,
        options.port,
        options.advertised_host,
        _server_tls(options.tls_certificate, options.tls_client_ca),
        None if options.to_config is None else _cluster_tls(options.to_config),
        options.max_connections,
        options.max_idle_ms,
    )
    faults = _faults(options.fault, _observer(options))
    try:
        ports = _admin_ports(options) if wants_admin(options) else None
        clock, lifespan = (Clock(), None) if ports is None else (ports.clock, ports.gateway_lifespan)
        ready_text = None if ports is None else ports.announcement(None)
        quiet = options.log == STANDARD_OUTPUT
        return run_node(lambda: Gateway(settings, faults, clock, ready_text, quiet=quiet), options.port_file, lifespan)
    except StartError as error:
        option = "--admin-port" if "the admin port" in str(error) else "--port"
        in_use = os.strerror(errno.EADDRINUSE) in str(error)
        raise CliError(f"{error}{f'; stop the other program, or choose another port with {option}' if in_use else ''}") from None


def _cluster(to: str) -> list[Address]:
    try:
        return [Address(*host_port(item.strip())) for item in to.split(",")]
    except CliError as error:
        raise CliError(f"--to: {error}", EXIT_USAGE) from None


def _check_effects(options: argparse.Namespace) -> None:
    """Raise CliError for an option that has no effect because another option, which it belongs to, is missing."""
    if options.log is None:
        for name in ("log_json", "log_only", "log_errors", "log_slower_than"):
            if getattr(options, name):
                raise CliError(f"--{name.replace('_', '-')} needs --log FILE, which says where to write the log", EXIT_USAGE)
    if options.admin_host != ADMIN_HOST and not wants_admin(options):
        raise CliError("--admin-host needs --admin-port or --console: without them there is no admin port", EXIT_USAGE)


def _observer(options: argparse.Namespace) -> Callable[[], WireLog] | None:
    if options.log is None:
        return None
    wanted = {"as_json": options.log_json, "errors": options.log_errors, "slower_than_ms": options.log_slower_than}
    return partial(wire_log, options.log, options.log_only, **wanted)


def _faults(rules: Sequence[str], log: Callable[[], WireLog] | None) -> Faults:
    try:
        faults = Faults((parse_rule(rule) for rule in rules), refused=NEEDS_A_BROKER)
        if log is not None:
            faults.observe(log())
    except ValueError as error:  # FaultSyntax, or a name that is used twice
        raise CliError(str(error), EXIT_USAGE) from None
    except OSError as error:
        raise CliError(f"--log: {error.filename} cannot be written: {error.strerror}", EXIT_USAGE) from None
    return faults


def _admin_ports(options: argparse.Namespace) -> AdminPorts:
    return AdminPorts(argparse.Namespace(**vars(options), admin_token=None, admin_open_local=False))


def _server_tls(file: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    if file is None:
        if client_ca is not None:
            raise CliError("--tls-client-ca needs --tls-certificate: without TLS, clients have no certificates", EXIT_USAGE)
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(file)
    except (OSError, ssl.SSLError) as error:
        raise CliError(f"--tls-certificate {file} is not a PEM file with a certificate and its key: {error}", EXIT_USAGE) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise CliError(f"--tls-client-ca {client_ca} is not a PEM file with certificates: {error}", EXIT_USAGE) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _cluster_tls(file: Path) -> ssl.SSLContext | None:
    from ottla.broker.cli.security import security_in  # noqa: PLC0415 # only where a file is given; it imports a client

    security = security_in(file)
    try:
        return security.tls() if security.encrypted else None
    except OSError as error:
        raise CliError(f"{file}: TLS cannot be set up: {error}", EXIT_USAGE) from None
