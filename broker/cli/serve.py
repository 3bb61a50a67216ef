"""`ottla serve`: runs brokers. It uses argparse because Typer would add a hundred times as much to the start time."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.broker.app import Broker, run
from ottla.broker.cli.admin_ports import AdminPorts, add_admin_options, wants_admin
from ottla.broker.cli.basics import help_formatter, port_number
from ottla.broker.cli.logs import log_to_stderr
from ottla.broker.core.clock import Clock, MovableClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import Loaded, SettingsError, data_dir, load, parse_assignments, source_of
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import FaultSyntax, parse_rule
from ottla.broker.net.listeners import ANYWHERE, advertised_hosts, listeners_of
from ottla.broker.net.network import host_and_port
from ottla.broker.process import Lifespan, StartError, run_node
from ottla.broker.storage.errors import LogDirRefused

if TYPE_CHECKING:
    from ottla.broker.development_security import DevelopmentSecurity

EXIT_USAGE = 2
_BROKERS_MAX = 100
_PORT = 9092
READY = (
    "[BrokerLifecycleManager id={0}] The broker is unfenced. Transitioning from RECOVERY to RUNNING. (Ottla)",
    "[KafkaRaftServer nodeId={0}] Kafka Server started (Ottla)",
    "[KafkaServer id={0}] started (Ottla)",
)
"""Log lines of Apache Kafka by which programs recognise that it has started, with the node id in place of `{0}`: two of KRaft mode, one of
ZooKeeper mode."""


@dataclass(frozen=True, slots=True)
class KafkaReplacement:
    """The options of `ottla serve` if it is started in place of Apache Kafka, by its container image or by `kafka-server-start`. Then an
    unknown setting is only a warning, and the log lines by which programs recognise a started Kafka (`READY`) are printed.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings from `KAFKA_…` environment variables; they win over the settings in a file."""
    scram: Sequence[str] = ()
    """SCRAM users of a new cluster, in the format of `ottla format --add-scram`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """For each setting, by its name: the environment variable that set it."""

    def origin(self, problem: str) -> str:
        """Return a line for each setting in the text `problem` that an environment variable set, with the name of the variable; empty if
        there is none."""
        named = [name for name in self.variables if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", problem)]
        return "".join(f"\n({name} comes from {self.variables[name]})" for name in named)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `ottla serve`."""
    made = argparse.ArgumentParser(
        prog="ottla serve",
        formatter_class=help_formatter,
        description=(
            "Start a broker. Every other setting has Kafka's own name and can be given as --set log.segment.bytes=1048576, "
            "as OTTLA_LOG_SEGMENT_BYTES=1048576, or as a line in a server.properties file; "
            "the command line wins over the environment, and the environment over the file. "
            "For example: ottla serve --data-dir data --port 19092 --set num.partitions=3"
        ),
    )
    made.add_argument("--data-dir", metavar="DIR", help="the data directory (log.dir; default ottla-data)")
    _add_copying(made)
    made.add_argument("--port", type=port_number, help="the port to listen on; 0 chooses a free one (default 9092)")
    made.add_argument("--host", help="the address to listen on (default 127.0.0.1; 0.0.0.0 for all)")
    made.add_argument(
        "--brokers",
        type=_brokers,
        metavar="N",
        help="run a cluster of N brokers and their controller in this process, on N+1 ports from --port on (docs/cluster.md)",
    )
    made.add_argument(
        "--like",
        default=os.environ.get("OTTLA_LIKE") or None,
        metavar="RELEASE",
        help="be like another release of Apache Kafka for clients, such as 3.7 (2.8 to 4.4; also OTTLA_LIKE; docs/releases.md)",
    )
    made.add_argument("--config", type=Path, metavar="FILE", help="a server.properties file")
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="assignments", help="a setting; may be repeated")
    made.add_argument("--tls", action="store_true", help="generate a certificate and encrypt; print client settings (docs/security.md)")
    made.add_argument(
        "--user",
        action="append",
        default=[],
        type=_user,
        metavar="NAME:PASSWORD",
        dest="users",
        help="require SASL (PLAIN or SCRAM) and add this user; may be repeated (also OTTLA_USERS); other users can see it: for tests only",
    )
    made.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS[:REPLICAS[:POLICY]]]",
        dest="topics",
        help="create this topic at start unless it exists; may be repeated (also OTTLA_TOPICS)",
    )
    made.add_argument("--port-file", type=Path, metavar="FILE", help="write the port to this file once the broker listens")
    _add_interception(made)
    add_admin_options(made, port_number)
    made.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="how much to log (default info)")
    return made


def _add_copying(made: argparse.ArgumentParser) -> None:
    made.set_defaults(moment_ms=None)
    made.add_argument(
        "--on-copy-of",
        type=Path,
        metavar="DIR",
        help="serve a copy (ottla fork) of this data directory of Ottla or Apache Kafka, in use or not, and never change it; the copy "
        "is --data-dir, or a temporary directory beside DIR that is removed at the end (docs/fork-and-rewind.md)",
    )
    made.add_argument(
        "--alone",
        action="store_true",
        help="with --on-copy-of a directory of one node of a cluster: lead every partition that it has, without the other nodes",
    )
    made.add_argument(
        "--as-of",
        metavar="TIME",
        help="with --on-copy-of: serve the copy as of an earlier moment, read only: a time (2026-01-31T12:00Z, or Unix time in ms), or "
        "orders-0@1234, when this partition ended at this offset",
    )


def _add_interception(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="RULE",
        help="a scripted fault, such as drop-ack:api=Produce,share=0.05,seed=7 (docs/faults.md lists all)",
    )
    made.add_argument(
        "--log-requests",
        metavar="FILE",
        help="write a line for each request and its result to this file, - for standard output; costs throughput (docs/gateway.md)",
    )


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError("a user is NAME:PASSWORD")  # without the text, which may be a password
    return name, password


def _brokers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _BROKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_BROKERS_MAX}")
    return int(text)


def serve() -> None:
    """Start a broker (`ottla serve --help` lists the options)."""
    raise SystemExit(main(["--help"]))


def main(argv: Sequence[str], in_place: KafkaReplacement | None = None) -> int:
    """Run brokers until they are stopped; return the process's exit code. `in_place` is given if Ottla is started in place of Apache
    Kafka."""
    options = parser().parse_args(argv)
    log_to_stderr(options.log_level)
    try:
        options.users += _users_of_variables(os.environ)
        with _copied(options):
            return _run_together(options) if options.brokers is not None else _run_one(options, in_place)
    except (SettingsError, FaultSyntax) as error:
        print(f"ottla serve: {error}{in_place.origin(str(error)) if in_place is not None else ''}", file=sys.stderr)
        return EXIT_USAGE
    except StartError as error:
        advice = "; stop the other program, or choose another port with {}" if _address_in_use(error) else ""
        option = "--admin-port" if "the admin port" in str(error) else "--port"
        print(f"ottla serve: {error}{advice.format(option)}", file=sys.stderr)
        return 1


def _copied(options: argparse.Namespace) -> AbstractContextManager[None]:
    if options.on_copy_of is None and not options.alone and options.as_of is None:
        return nullcontext()
    from ottla.broker.cli.on_copy import on_copy  # noqa: PLC0415 # most starts copy nothing

    return on_copy(options)


def _address_in_use(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return True
        error = error.__cause__
    return False


def _users_of_variables(env: Mapping[str, str]) -> list[tuple[str, str]]:

    try:
        return [_user(item) for item in env.get("OTTLA_USERS", "").split(",") if item]
    except argparse.ArgumentTypeError as error:
        raise SettingsError(f"OTTLA_USERS: {error}") from None


def _run_one(options: argparse.Namespace, in_place: KafkaReplacement | None) -> int:

    if in_place is not None and options.tls:
        raise SettingsError("--tls configures the listeners itself, but here they are configured by settings: use those instead")
    given = parse_assignments(options.assignments)
    _check_address(options, given, in_place)
    assignments = {**given, **_shorthands(options, in_place is None)}
    security = _development_security(options, assignments) if in_place is None and (options.tls or options.users) else None
    loaded = load(
        assignments if security is None else {**security.settings, **assignments},
        os.environ,
        options.config,
        of_image=None if in_place is None else in_place.settings,
        tolerant=in_place is not None,
        like=options.like,
    )
    settings = loaded.settings
    settings.users, settings.read_only = dict(options.users), options.moment_ms is not None
    _check_security(settings, tls=options.tls)
    faults = Faults(parse_rule(text) for text in options.fault)
    if options.log_requests is not None:
        _log_requests(faults, options.log_requests)
    _say(loaded)
    prepare = partial(_format_where_new, settings, in_place.scram if in_place is not None else ())
    if settings.is_controller and not settings.is_cluster_broker:
        return _run_controller(settings, options, prepare)
    ready_text = _ready_lines(settings) if in_place is not None else None if security is None else _client_configuration(security, settings)
    lifespan = _with_topics(options.topics)
    start = partial(run, settings, faults, options.port_file, prepare=prepare)
    ports = _ports_of_admin(options)
    clock = MovableClock() if ports is None else ports.clock
    if options.moment_ms is not None:
        clock.rewind_to(options.moment_ms)
    if ports is None:
        return start(ready_text=ready_text, lifespan=lifespan, clock=clock if settings.read_only else None)

    @asynccontextmanager
    async def with_admin_port(broker: Broker) -> AsyncIterator[None]:
        async with (lifespan or nullcontext)(broker), ports.broker_lifespan(broker, faults):
            yield

    return start(clock=clock, lifespan=with_admin_port, ready_text=ports.announcement(ready_text))


def _log_requests(faults: Faults, path: str) -> None:
    from ottla.broker.cli.wire_logs import wire_log  # noqa: PLC0415 # most starts have no such log

    try:
        faults.observe(wire_log(path))
    except OSError as error:
        raise StartError(f"--log-requests {path}: the file cannot be written: {error.strerror}") from error


def _say(loaded: Loaded) -> None:
    logger = logging.getLogger("ottla.broker")
    for note in loaded.notes:
        logger.info("%s", note)
    for warning in loaded.warnings:
        logger.warning("%s; it is ignored, as Apache Kafka ignores it", warning)


def _ready_lines(settings: BrokerSettings) -> Callable[[str], str]:
    return lambda _: "\n".join(READY).format(settings.node_id)


def _client_configuration(security: DevelopmentSecurity, settings: BrokerSettings) -> Callable[[str], str]:
    """Return a function that takes the bound address (`host:port`) and returns the text that tells the user how clients connect: the
    address, certificates and users."""

    (listener,) = listeners_of(settings)
    host = listener.advertised_host or ("localhost" if listener.host in ANYWHERE else listener.host)

    def with_address(bound: str) -> str:
        return security.client_configuration(host_and_port(host, listener.advertised_port or int(bound.rpartition(":")[2])))

    return with_address


def _with_topics(given: Sequence[str], broker_of: Callable[[Any], Broker] = lambda node: node) -> Lifespan[Any] | None:
    """Return a context that creates the topics in `given` (--topic) and OTTLA_TOPICS before the start is announced; None if there are none.
    `broker_of` takes the started node (a broker or a local cluster) and returns the broker that creates the topics."""
    from_environment = os.environ.get("OTTLA_TOPICS", "")
    if not given and not from_environment.strip():
        return None
    from ottla.broker.start_topics import make_topics, parsed_topic, parsed_topics  # noqa: PLC0415 # most starts ask for none

    topics = [*map(parsed_topic, given), *parsed_topics(from_environment)]

    @asynccontextmanager
    async def create_topics(node: Any) -> AsyncIterator[None]:
        await make_topics(broker_of(node), topics)
        yield

    return create_topics


def _format_where_new(settings: BrokerSettings, scram: Sequence[str]) -> None:
    if settings.cluster_id is None:
        return
    from ottla.broker.first_start import format_where_new  # noqa: PLC0415 # only cluster nodes need it

    try:
        if format_where_new(settings, Clock().now_ms(), scram):
            logging.getLogger("ottla.broker").info(
                "The data directory is new: formatted for node %d of cluster %s", settings.node_id, settings.cluster_id
            )
    except LogDirRefused as error:
        raise StartError(str(error)) from error


def _run_controller(settings: BrokerSettings, options: argparse.Namespace, prepare: Callable[[], None]) -> int:
    from ottla.broker.controller_node import ControllerNode  # noqa: PLC0415 # only controllers need it

    if options.fault or options.log_requests or wants_admin(options):
        raise StartError("faults, the log of requests and the admin port are for brokers: process.roles=controller has none of them")

    def make() -> ControllerNode:
        node = ControllerNode(settings)  # before formatting: it rejects invalid security settings
        prepare()
        return node

    return run_node(make, options.port_file)


def _run_together(options: argparse.Namespace) -> int:
    from ottla.broker.layout import Layout, with_replication_settings  # noqa: PLC0415 # only several nodes in one process need it
    from ottla.broker.local_cluster import LocalCluster, name_nodes_in_log  # noqa: PLC0415 # only several nodes in one process need it

    if options.like is not None:
        raise SettingsError(
            "--like is for a standalone node: the brokers of a cluster are always like the newest release that its metadata.version allows"
        )
    if options.log_requests is not None:
        raise SettingsError("--log-requests is for a single broker: put a gateway before the cluster instead (ottla gateway --log)")
    path, common = Path(options.data_dir or "ottla-data"), parse_assignments(options.assignments)
    _check_address(options, common)
    host, port = options.host or "127.0.0.1", _PORT if options.port is None else options.port
    layout = Layout(path, options.brokers, host, port, _listener_name(options))
    security = _cluster_security(options, path) if options.tls or options.users else None
    name_nodes_in_log()

    def settings_of(node: Mapping[str, str]) -> BrokerSettings:
        wanted = {**({} if security is None else security.settings), **common, **node}
        given = load(wanted, os.environ, options.config).settings
        wanted = with_replication_settings(wanted, given.explicit, options.brokers)
        if security is not None and given.authorizer_class_name:
            wanted["super.users"] = security.super_users(given.super_users)
        settings = load(wanted, os.environ, options.config).settings
        settings.users = {} if security is None else security.users_at(settings)
        _check_security(settings, tls=options.tls)
        return settings

    ports, with_topics = _ports_of_admin(options), _with_topics(options.topics, lambda nodes: next(iter(nodes.brokers.values())))
    configuration = None if security is None else security.client_configuration
    ready_text = configuration if ports is None else ports.announcement(configuration)

    @asynccontextmanager
    async def lifespan(nodes: LocalCluster) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context((with_topics or nullcontext)(nodes))
            for number, (node, broker) in enumerate(nodes.brokers.items() if ports is not None else ()):
                assert ports is not None
                await stack.enter_async_context(ports.broker_lifespan(broker, nodes.faults[node], number))
            yield

    def environment() -> Environment:
        return Environment() if ports is None else Environment(ports.clock)

    def faults() -> Faults:
        return Faults(parse_rule(text) for text in options.fault)

    return run_node(lambda: LocalCluster(layout, settings_of, faults, environment, ready_text=ready_text), options.port_file, lifespan)


def _check_address(options: argparse.Namespace, assignments: Mapping[str, str], in_place: KafkaReplacement | None = None) -> None:
    """Raise SettingsError if an option that configures listeners (--port, --host, --brokers, --tls, --user) and the setting `listeners` are
    both given, because one of them would be ignored silently."""
    security = ("--tls" if options.tls else "--user (or OTTLA_USERS)") if in_place is None and (options.tls or options.users) else None
    given = {"--brokers": options.brokers, "--port": options.port, "--host": options.host}
    opener = security or next((name for name, value in given.items() if value is not None), None)
    if opener is None:
        return

    of_image = None if in_place is None else in_place.settings
    if (source := source_of("listeners", assignments, os.environ, options.config, of_image=of_image)) is None:
        return
    problem = f"{opener} configures the listeners, but the setting listeners is given too (from the {source}): remove "
    if security is not None:
        problem += (
            "the setting and use --host and --port, or configure the security of these listeners by settings "
            f"instead of {security} (listener.security.protocol.map, docs/security.md)"
        )
    elif opener == "--brokers":
        problem += "the setting and use --host and --port (docs/cluster.md)"
    else:
        problem += "one of them"
    raise SettingsError(problem)


def _check_security(settings: BrokerSettings, *, tls: bool) -> None:
    if tls or settings.users:
        from ottla.broker.development_security import check_secured  # noqa: PLC0415 # only with --tls or --user

        check_secured(settings, tls=tls)


def _cluster_security(options: argparse.Namespace, path: Path) -> DevelopmentSecurity:
    import secrets  # noqa: PLC0415 # only with --tls or --user

    from ottla.broker.development_security import cluster_security  # noqa: PLC0415 # only with --tls or --user
    from ottla.broker.layout import LISTENER  # noqa: PLC0415 # only with --tls or --user

    return cluster_security(_certificates_and_users(options, path), LISTENER, secrets.token_hex(16))


def _development_security(options: argparse.Namespace, assignments: Mapping[str, str]) -> DevelopmentSecurity:

    given = load(assignments, os.environ, options.config).settings
    if given.process_roles:
        raise SettingsError("--tls and --user need a standalone node or --brokers: configure other cluster listeners by settings")
    return _certificates_and_users(options, data_dir(given), advertised_hosts(given))


def _certificates_and_users(options: argparse.Namespace, path: Path, more_hosts: Sequence[str] = ()) -> DevelopmentSecurity:
    """Return the development security (generated certificates and users) that --tls and --user ask for. The certificates are stored beside
    the data directory `path`. `more_hosts` are host names that clients connect to, beside `--host`. Raises StartError if the certificate
    cannot be generated."""
    from ottla.broker.development_security import make_development_security  # noqa: PLC0415 # only with --tls or --user

    hosts = [*([options.host] if options.host else []), *more_hosts]
    try:
        return make_development_security(path, Clock().now_ms(), tls=options.tls, users=dict(options.users), hosts=hosts)
    except OSError as error:
        raise StartError(f"the certificate cannot be generated: {error}") from error


def _listener_name(options: argparse.Namespace) -> str:
    return "SECURE" if options.tls or options.users else "PLAINTEXT"


def _ports_of_admin(options: argparse.Namespace) -> AdminPorts | None:
    """Return the admin ports (HTTP, for faults, clock and console) of the process; None if no option asks for one."""
    if not wants_admin(options):
        return None
    return AdminPorts(options)


def _shorthands(options: argparse.Namespace, with_security: bool) -> dict[str, str]:
    """Translate `--data-dir`, `--host` and `--port` to settings. With `with_security`, the listener also gets the security protocol that
    `--tls` and `--user` ask for; otherwise it is PLAINTEXT."""
    found = {}
    if options.data_dir is not None:
        found["log.dir"] = options.data_dir
        found["log.dirs"] = ""  # a file may set it, and it would win over log.dir
    secured = with_security and (options.tls or options.users)
    if options.port is not None or options.host is not None or secured:
        host = options.host or "127.0.0.1"
        if ":" in host:
            host = f"[{host}]"
        name = _listener_name(options) if with_security else "PLAINTEXT"
        found["listeners"] = f"{name}://{host}:{_PORT if options.port is None else options.port}"
    return found
