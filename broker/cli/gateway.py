"""`ottla gateway`: a gateway in front of any Kafka cluster."""

from __future__ import annotations

import argparse
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ottla.broker.cli.admin_ports import AdminPorts
from ottla.broker.cli.basics import CliError, host_port
from ottla.broker.cli.common import command
from ottla.broker.cli.logs import log_to_stderr
from ottla.broker.cli.security import security_in
from ottla.broker.cli.wire_logs import STANDARD_OUTPUT, wire_log
from ottla.broker.core.clock import Clock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, parse_rule
from ottla.broker.faults.wire_log import WireLog
from ottla.broker.gateway.address_book import Address
from ottla.broker.net.gateway import CONNECTIONS_DEFAULT, IDLE_DEFAULT_MS, Gateway, GatewaySettings
from ottla.broker.process import StartError, run_node

Certificate = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM file with a certificate and its key: clients have to use TLS.")]
ClientCa = Annotated[
    Path | None, typer.Option(metavar="FILE", help="PEM file with CAs: clients have to present a certificate of one of them.")
]
MaxIdle = Annotated[
    int, typer.Option(min=-1, metavar="MS", help="Close a connection on which nothing moves for this long; -1: never.", show_default=True)
]
AdminPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65_535, metavar="PORT", help="Serve faults over HTTP on this port; its token is OTTLA_ADMIN_TOKEN, or printed."
    ),
]


@command
def gateway(  # noqa: PLR0917 # Typer calls it by name; each is an option of the command line
    to: Annotated[str, typer.Option(metavar="HOST:PORT[,…]", help="Brokers of the cluster; one that can be reached is enough.")],
    to_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TLS towards the cluster: security.protocol and ssl.… as in Kafka's client.properties."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port for clients; a broker gets this plus 1 plus its node id. 0: any free ports.")
    ] = 19_092,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host name that clients get; default: the address to which they connect.")
    ] = None,
    tls_certificate: Certificate = None,
    tls_client_ca: ClientCa = None,
    max_connections: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Maximum number of clients' connections; more are closed at once.")
    ] = CONNECTIONS_DEFAULT,
    max_idle_ms: MaxIdle = IDLE_DEFAULT_MS,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="A fault, such as drop-ack:api=Produce,share=0.05,seed=7 (docs/faults.md); may be repeated."),
    ] = None,
    admin_port: AdminPort = None,
    admin_host: Annotated[str, typer.Option(metavar="HOST", help="Address to bind the admin port to.")] = "127.0.0.1",
    log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a line for each request and its result to this file; - for standard output.")
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write all decoded fields as JSON lines.")] = False,
    log_only: Annotated[
        list[str] | None,
        typer.Option(metavar="FILTER", help="Log only such requests: api=Fetch,topic=orders-*,group=…,client_id=…; may be repeated."),
    ] = None,
    log_errors: Annotated[bool, typer.Option("--log-errors", help="Log only results with an error.")] = False,
    log_slower_than: Annotated[float, typer.Option(min=0, metavar="MS", help="Log only what took at least so long.")] = 0,
    port_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the port to this file once the gateway listens.")] = None,
    log_level: Annotated[str, typer.Option(metavar="debug|info|warning|error", help="How much to log.")] = "info",
) -> None:
    """Stand between programs and any Kafka cluster: clients connect to the gateway, stay there, and meet the faults that you script.

    The gateway rewrites the brokers' addresses in responses, so that clients reach every broker through it. Everything else passes as it
    is: records, transactions, also APIs that Ottla does not know. It needs no credentials: clients authenticate through it.

    For example: ottla gateway --to localhost:9092, then use localhost:19092 as the bootstrap server (docs/gateway.md).
    """
    _log_at(log_level)
    settings = GatewaySettings(
        [Address(*host_port(item)) for item in to.split(",") if item],
        host,
        port,
        advertised_host,
        _server_tls(tls_certificate, tls_client_ca),
        None if to_config is None else _cluster_tls(to_config),
        max_connections,
        max_idle_ms,
    )
    observer = (
        None if log is None else partial(wire_log, log, log_only or (), as_json=log_json, errors=log_errors, slower_than_ms=log_slower_than)
    )
    faults = _faults(fault or (), observer)
    try:
        ports = None if admin_port is None else _admin_ports(admin_port, admin_host)
        clock, beside = (Clock(), None) if ports is None else (ports.clock, ports.beside_gateway)
        tell = None if ports is None else ports.told_after(None)
        raise typer.Exit(run_node(lambda: Gateway(settings, faults, clock, tell, quiet=log == STANDARD_OUTPUT), port_file, beside))
    except StartError as error:
        option = "--admin-port" if "the admin port" in str(error) else "--port"
        advice = f"; stop the other program, or choose another port with {option}" if "listen on" in str(error) else ""
        raise CliError(f"{error}{advice}") from None


def _log_at(level: str) -> None:
    if level.upper() not in logging.getLevelNamesMapping():
        raise CliError(f"--log-level {level}: use debug, info, warning or error", exit_code=2)
    log_to_stderr(level)


def _faults(rules: Sequence[str], log: Callable[[], WireLog] | None) -> Faults:
    try:
        faults = Faults((parse_rule(rule) for rule in rules), refused=NEEDS_A_BROKER)
        if log is not None:
            faults.observe(log())
    except ValueError as error:  # FaultSyntax, or a name that is used twice
        raise CliError(str(error), exit_code=2) from None
    except OSError as error:
        raise CliError(f"--log: {error.filename} cannot be written: {error.strerror}", exit_code=2) from None
    return faults


def _admin_ports(port: int, host: str) -> AdminPorts:
    options = {"admin_port": port, "admin_host": host, "admin_token": None, "admin_open_local": False, "console": False}
    return AdminPorts(argparse.Namespace(**options))


def _server_tls(file: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    if file is None:
        if client_ca is not None:
            raise CliError("--tls-client-ca needs --tls-certificate: without TLS, clients have no certificates", exit_code=2)
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(file)
    except (OSError, ssl.SSLError) as error:
        raise CliError(f"--tls-certificate {file} is not a PEM file with a certificate and its key: {error}", exit_code=2) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise CliError(f"--tls-client-ca {client_ca} is not a PEM file with certificates: {error}", exit_code=2) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _cluster_tls(file: Path) -> ssl.SSLContext | None:
    security = security_in(file)
    try:
        return security.tls() if security.encrypted else None
    except OSError as error:
        raise CliError(f"{file}: TLS cannot be set up: {error}", exit_code=2) from None


@command
def tap(  # noqa: PLR0917 # Typer calls it by name; each is an option of the command line
    to: Annotated[str, typer.Option(metavar="HOST:PORT[,…]", help="Brokers of the cluster; one that can be reached is enough.")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port for clients, as in ottla gateway.")] = 19_092,
    to_config: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS towards the cluster, as in ottla gateway.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="FILTER", help="Show only such requests: api=Fetch,topic=orders-*,group=…,client_id=…; may be repeated."),
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Show only results with an error.")] = False,
    slower_than: Annotated[float, typer.Option(min=0, metavar="MS", help="Show only what took at least so long.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Show all decoded fields as JSON lines.")] = False,
) -> None:
    """Show the requests of programs and their results as they pass: a gateway whose log is standard output.

    For example: ottla tap --to localhost:9092 --only api=Produce, then use localhost:19092 as the bootstrap server (docs/gateway.md).
    """
    gateway(to, to_config, port, log=STANDARD_OUTPUT, log_json=as_json, log_only=only, log_errors=errors, log_slower_than=slower_than)
