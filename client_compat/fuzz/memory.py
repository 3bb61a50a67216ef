"""`python -m client_compat.fuzz.memory`: measure how long a bystander (a normal client) waits while attackers occupy the broker's request
memory.

Runs against Ottla and Apache Kafka.

Rules:
- Attackers run in a separate process and reconnect when the broker closes their connections.
- The bystander sends one Metadata request after the other. A request without a response counts with the time that it waited.
"""

from __future__ import annotations

import resource
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support import program
from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.ports import free_port
from client_compat.support.program import or_exit
from client_compat.support.workers import SPAWN
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest

MEBIBYTE = 1024 * 1024
P99_MAX_S = 0.1
WAIT_MAX_S = 20.0
BETWEEN_S = 0.005
RECONNECTIONS_PER_S = 50
"""How often an attacker reconnects at most, in connections per second. Without this limit, the attack would measure how fast a broker
accepts connections."""
TRICKLE_EVERY_S = 1.5
REST_S = 3.0
"""The time between an attack and the second measurement of the broker's memory, in seconds."""
CHUNK = bytes(MEBIBYTE)
JVM = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC")
"""JVM options of the Apache Kafka broker: the heap and the garbage collector of Kafka's start script."""
LOG_IN = "LOGIN"


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack on request memory: each of `connections` connections announces a request of `announced` bytes, sends `sent` of these bytes,
    and then one byte from time to time."""

    name: str
    connections: int
    announced: int
    sent: int
    before_log_in: bool = False


ATTACKS = (
    Attack("7 requests of 100 MB, 80 MB sent", 7, 100_000_000, 80_000_000),
    Attack("1,060 log-ins of 512 KiB", 1_060, 512 * 1024, 512 * 1024 - 1_000, before_log_in=True),
)


@dataclass(slots=True)
class Found:
    """The waiting times of a bystander (a normal client) during an attack, and the broker's memory use; if the broker died, `died` holds
    the end of its output."""

    waits_s: list[float]
    rss_max: int = 0
    rss_after: int = 0
    died: str = ""

    def p99_s(self) -> float:
        return sorted(self.waits_s)[len(self.waits_s) * 99 // 100]

    @property
    def good(self) -> bool:
        return not self.died and self.p99_s() <= P99_MAX_S


class _Trickle:
    """A connection of an attacker that announces a large request and sends only a part of it."""

    def __init__(self, port: int, attack: Attack) -> None:
        self.left = attack.sent
        self.peer = socket.create_connection((HOST, port), WAIT_MAX_S)
        self.peer.setblocking(False)
        self.peer.send(struct.pack(">i", attack.announced))

    def push(self) -> None:
        """Send as many bytes as the socket accepts now. Raises OSError if the broker closed the connection."""
        with suppress(BlockingIOError):
            while self.left > 0:
                self.left -= self.peer.send(CHUNK[: self.left])

    def trickle(self) -> None:
        with suppress(BlockingIOError):
            if self.left <= 0:
                self.peer.send(b"\0")


def attack_for_ever(attack: Attack, port: int) -> None:
    """Occupy as much of the request memory of the broker at `port` as `attack` describes, until this process is ended."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * attack.connections)), hard))
    peers: list[_Trickle] = []
    made, next_connection = 0, 0.0
    next_byte = time.monotonic()
    while True:
        is_due = time.monotonic() >= next_byte
        if is_due:
            next_byte = time.monotonic() + TRICKLE_EVERY_S
        for peer in list(peers):
            try:
                peer.push()
                if is_due:
                    peer.trickle()
            except OSError:
                peers.remove(peer)
                peer.peer.close()
        with suppress(OSError):
            if len(peers) < attack.connections and (made < attack.connections or time.monotonic() >= next_connection):
                made += 1
                next_connection = time.monotonic() + 1 / RECONNECTIONS_PER_S
                peers.append(_Trickle(port, attack))
                peers[-1].push()
        time.sleep(BETWEEN_S if made >= attack.connections else 0)


def ask_for(seconds: float, port: int) -> Iterator[float]:
    """Yield, for `seconds`, the waiting time in seconds of each request of a bystander (a normal client). It reconnects when its connection
    is closed."""
    end = time.monotonic() + seconds
    client: Client | None = None
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            client = client or Client(HOST, port, client_id="bystander", timeout_s=WAIT_MAX_S)
            client.call(MetadataRequest([]), 9)
        except OSError:
            client = None
        yield time.monotonic() - began
        time.sleep(BETWEEN_S)


def measure_attack(attack: Attack, broker: BrokerProcess, attacked_port: int, seconds: float) -> Found:
    """Attack a running broker for `seconds`; return the waiting times of a bystander (a normal client) and the broker's memory use."""
    attacker = SPAWN.Process(target=attack_for_ever, args=(attack, attacked_port), daemon=True)
    attacker.start()
    found = Found([])
    try:
        for wait_s in ask_for(seconds, broker.port):
            found.waits_s.append(wait_s)
            if not broker.alive:
                found.died = broker.output_tail()[-200:]
                return found
            found.rss_max = max(found.rss_max, broker.usage().rss_bytes)
    finally:
        attacker.kill()
        attacker.join()
    time.sleep(REST_S)
    found.rss_after = broker.usage().rss_bytes
    return found


def listeners(port: int, log_in_port: int, **others: int) -> dict[str, str]:
    found = ",".join(f"{name}://{HOST}:{each}" for name, each in {"PLAINTEXT": port, LOG_IN: log_in_port, **others}.items())
    protocols = ",".join([f"PLAINTEXT:PLAINTEXT,{LOG_IN}:SASL_PLAINTEXT", *(f"{name}:PLAINTEXT" for name in others)])
    return {
        "listeners": found,
        "advertised.listeners": found,
        "listener.security.protocol.map": protocols,
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{LOG_IN.lower()}.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";'
        ),
    }


@contextmanager
def _ottla(directory: Path, log_in_port: int) -> Iterator[BrokerProcess]:
    port, file = free_port(), directory / "ottla.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in listeners(port, log_in_port).items()))
    broker = ottla(directory / "ottla", port=port)
    broker.argv = [part for part in broker.argv if part not in {"--port", str(port)}] + ["--config", str(file)]
    with broker:
        yield broker


@contextmanager
def _kafka(directory: Path, log_in_port: int) -> Iterator[BrokerProcess]:
    node = ReferenceBroker(directory / "kafka", jvm=JVM)
    node.settings = listeners(node.port, log_in_port, CONTROLLER=node.controller_port)
    with node:
        yield node.broker


def main(
    *,
    seconds: Annotated[float, typer.Option(min=1, help="How long each attack lasts.")] = 20,
    with_kafka: Annotated[bool, typer.Option("--kafka/--no-kafka", help="Attack Apache Kafka, too.")] = True,
) -> None:
    """Measure how long a normal client waits while attackers occupy the broker's request memory. Exit code 1 when Ottla dies, or the
    client's 99th percentile is above 0.1 s."""
    console = program.new_console()
    table = Table(title=f"A bystander during {seconds:.0f} s of attack")
    for column in ("attack", "broker", "requests", "p50 ms", "p99 ms", "longest ms", "memory MiB", "afterwards"):
        table.add_column(column, justify="left" if column in {"attack", "broker"} else "right")
    good = True
    kinds = {"Ottla": _ottla, **({"Apache Kafka": _kafka} if with_kafka else {})}
    with or_exit(console, "The run could not be done", KafkaMissing):
        for attack in ATTACKS:
            for kind, started in kinds.items():
                found = _measured(attack, seconds, started)
                good = good and (found.good or kind != "Ottla")
                waits = sorted(found.waits_s)
                numbers = [f"{1000 * each:,.1f}" for each in (waits[len(waits) // 2], found.p99_s(), waits[-1])]
                after = "DEAD" if found.died else f"{found.rss_after // MEBIBYTE:,}"
                table.add_row(attack.name, kind, f"{len(waits):,}", *numbers, f"{found.rss_max // MEBIBYTE:,}", after)
    console.print(table)
    raise typer.Exit(0 if good else 1)


def _measured(attack: Attack, seconds: float, started: Callable[[Path, int], AbstractContextManager[BrokerProcess]]) -> Found:
    log_in_port = free_port()
    with tempfile.TemporaryDirectory() as directory, started(Path(directory), log_in_port) as broker:
        return measure_attack(attack, broker, log_in_port if attack.before_log_in else broker.port, seconds)


if __name__ == "__main__":
    program.run(main)
