"""`python -m client_compat.fuzz.turns`: how long a bystander waits while others send the largest legal request of each API, on Ottla and
on Apache Kafka.

Rules: the attacker is a process of its own, which sends the same request again and again, or twelve of them in one piece, and reads the
answers; the bystander asks for one topic's metadata, one request after the other. A request that Ottla refuses for its size is made half as
large until it is answered, and Apache Kafka gets the same one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from client_compat.fuzz.largest import ELEMENTS, largest
from client_compat.fuzz.memory import JVM, ask_for
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support import program
from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.ports import free_port
from client_compat.support.program import or_exit
from client_compat.support.progress import progress
from client_compat.support.workers import SPAWN
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request, request_class
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.schema import Message

PIPELINED: Final = 12
SMALLEST: Final = 50
ANSWER_MAX_S: Final = 120.0
P99_MAX_S: Final = 0.1
LEFT_OUT: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})


@dataclass(slots=True)
class Attack:
    """A request that is sent again and again, and what the bystander waited at each broker, in seconds."""

    name: str
    times: int
    frame: bytes
    waits_s: dict[str, list[float]] = field(default_factory=dict)

    def p99_s(self, kind: str) -> float:
        waits = sorted(self.waits_s[kind])
        return waits[len(waits) * 99 // 100]


def attack_for_ever(frame: bytes, times: int, port: int) -> None:
    """Send the request, and read its answers, until the process is killed."""
    with ThreadPoolExecutor(1) as sender:
        while True:
            with suppress(OSError), Client(HOST, port, client_id="attacker", timeout_s=ANSWER_MAX_S) as client:
                while True:
                    sent = sender.submit(client.send_raw, frame * times)  # a broker reads no more while its answers are not taken
                    for _ in range(times):
                        client.read_frame()
                    sent.result()


def attacks(port: int, apis: list[int]) -> Iterator[Attack]:
    """The largest requests that the broker at `port` answers."""
    with Client(HOST, port) as client:
        versions = {each.api_key: each.max_version for each in client.call(ApiVersionsRequest(), 0).api_keys}
    for key, version in sorted(versions.items()):
        if key in LEFT_OUT or (apis and key not in apis):
            continue
        for array, request in largest(request_class(key), version):
            count, found = ELEMENTS, _frame(request, version)
            while not _is_answered(found, port) and count > SMALLEST:
                count //= 2
                found = _frame(dict(largest(request_class(key), version, count))[array], version)
            for times in (1, PIPELINED):
                yield Attack(f"{ApiKey(key).name} {array} x{times}", times, found)


def _frame(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 1, "attacker", request))


def _is_answered(frame: bytes, port: int) -> bool:
    with Client(HOST, port, timeout_s=ANSWER_MAX_S) as client:
        try:
            client.send_raw(frame)
            client.read_frame()
        except OSError:
            return False
    return True


def suffer(attack: Attack, kind: str, port: int, seconds: float) -> None:
    """Let the bystander wait at one broker."""
    attacker = SPAWN.Process(target=attack_for_ever, args=(attack.frame, attack.times, port), daemon=True)
    attacker.start()
    try:
        attack.waits_s[kind] = list(ask_for(seconds, port))
    finally:
        attacker.kill()
        attacker.join()


@contextmanager
def _brokers(directory: Path, *, beside: bool) -> Iterator[dict[str, BrokerProcess]]:
    with ottla(directory / "ottla", port=free_port()) as broker:
        if not beside:
            yield {"Ottla": broker}
            return
        with ReferenceBroker(directory / "kafka", jvm=JVM) as node:
            yield {"Ottla": broker, "Apache Kafka": node.broker}


def main(
    apis: Annotated[list[int] | None, typer.Argument(help="API keys; all by default.")] = None,
    *,
    seconds: Annotated[float, typer.Option(min=1, help="How long each attack lasts.")] = 3,
    beside: Annotated[bool, typer.Option("--kafka/--no-kafka", help="Attack Apache Kafka, too.")] = True,
) -> None:
    """Exit code 1 when a bystander of Ottla's has a 99th percentile above 0.1 s."""
    console = program.new_console()
    done: list[Attack] = []
    with (
        or_exit(console, "The run could not be done", KafkaMissing),
        tempfile.TemporaryDirectory() as directory,
        _brokers(Path(directory), beside=beside) as brokers,
        progress(console) as display,
    ):
        found = list(attacks(brokers["Ottla"].port, apis or []))
        bar = display.add_task("attacks", total=len(found), note="")
        for attack in found:
            display.update(bar, note=attack.name)
            for kind, broker in brokers.items():
                suffer(attack, kind, broker.port, seconds)
                time.sleep(0.2)
            done.append(attack)
            display.advance(bar)
    console.print(_table(done))
    raise typer.Exit(0 if all(attack.p99_s("Ottla") <= P99_MAX_S for attack in done) else 1)


def _table(done: list[Attack]) -> Table:
    table = Table(title="What a bystander waits while others send the largest legal requests, in milliseconds")
    table.add_column("request")
    table.add_column("bytes", justify="right")
    for kind in done[0].waits_s if done else ():
        for column in ("p99", "longest"):
            table.add_column(f"{kind} {column}", justify="right")
    for attack in done:
        numbers = [f"{1000 * each:,.1f}" for kind in attack.waits_s for each in (attack.p99_s(kind), max(attack.waits_s[kind]))]
        table.add_row(attack.name, f"{len(attack.frame):,}", *numbers)
    return table


if __name__ == "__main__":
    program.run(main)
