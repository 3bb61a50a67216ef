"""`python -m client_compat.fuzz.large_requests`: measure the effect of the largest legal request of each API on other clients.

Measures the longest turn (iteration) of Ottla's event loop, and the response times of a bystander (a normal client) with Ottla and with
Apache Kafka.

Rules:
- Each request is sent alone, by a user without permissions (guest) and by a super user (admin). It is repeated for a while on one
  connection.
- With `--whole`, it is also sent unauthenticated (nobody), and by each user twelve times in one piece. That takes more than an hour,
  because a broker may need more than ten seconds for twelve of the largest requests and is then restarted.
- If Ottla rejects a request because of its size, its size is halved until Ottla responds; Apache Kafka gets the same bytes.
- Requests that change metadata come last, because their changes would affect all later measurements.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from client_compat.differential.run import common_versions
from client_compat.fuzz.batches import renumbered
from client_compat.fuzz.bystander import TOPIC, Bystander, p99_ms
from client_compat.fuzz.largest import ELEMENTS, largest
from client_compat.fuzz.memory import JVM, LOG_IN, listeners
from client_compat.fuzz.watched import LongestTurn
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support import program
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.ports import free_port
from client_compat.support.program import or_exit
from client_compat.support.progress import progress
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.registry import declared_keys, request_class
from ottla.protocol.schema import Message

OTTLA, KAFKA = "Ottla", "Apache Kafka"
NOBODY, GUEST, ADMIN = "nobody", "guest", "admin"
DIED = "died"
EVERYBODY = (NOBODY, GUEST, ADMIN)
AUTHENTICATED = (GUEST, ADMIN)
PASSWORD = "secret"
PIPELINED: Final = 12
SMALLEST: Final = 50
"""The number of array elements at which a rejected request is not made smaller any more, because its size cannot be the reason for the
rejection."""
GOAL_MS: Final = 20.0
TURN_MAX_MS: Final = 50.0
P99_MAX_MS: Final = 100.0
ANSWER_MAX_S: Final = 30.0
PIPELINED_MAX_S: Final = 10.0
"""Maximum time, in seconds, for the responses to pipelined requests, which may take long without harm to a bystander (a normal client).

If they take longer, the broker is killed and restarted, because it would still be busy during the next attack.
"""
RECONNECTIONS_PER_S: Final = 50
"""How often an attacker reconnects at most, in connections per second. Without this limit, the attack would measure how fast a broker
accepts connections."""
THREADS: Final = {"num.network.threads": "3", "num.io.threads": "8"}
"""Thread counts of the Apache Kafka broker: Kafka's defaults. With fewer threads, other clients would wait much longer."""
WARM_UP_S: Final = 3.0
"""How long to wait after Ottla's start, in seconds. Ottla then collects garbage once, in one iteration of its event loop, and this delay
must not be attributed to a request."""
RECORDS: Final = 2_000_000
PRODUCE_VERSION: Final = 9
LAST: Final = (
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_ACLS,
)
"""APIs that change metadata; they are tested last, in this order."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One of the largest legal requests of an API. `array` is the path of its long array, which has `elements` elements; `frame` contains
    the encoded request with its size prefix."""

    api: str
    array: str
    elements: int
    frame: bytes


@dataclass(slots=True)
class Found:
    """The measurements of one broker and its bystander (a normal client) during an attack.

    `answers` counts the responses to the attacker; `end` is the reason for a restart of the broker.
    """

    waits_s: list[float]
    turn_ms: float | None = None
    answers: int = 0
    end: str = ""

    @property
    def p99_ms(self) -> float:
        return p99_ms(self.waits_s)

    @property
    def longest_ms(self) -> float:
        return 1000 * max(self.waits_s)


@dataclass(slots=True)
class Row:
    """One attack by one user, sent `times` times in one piece, with the measurements by broker name."""

    attack: Attack
    who: str
    times: int
    found: dict[str, Found] = field(default_factory=dict)

    @property
    def complaints(self) -> list[str]:
        """Texts that name the limits that Ottla exceeded during this attack."""
        ours = self.found[OTTLA]
        turn = f"the longest turn has {ours.turn_ms:,.0f} ms" if ours.turn_ms is not None and ours.turn_ms > TURN_MAX_MS else ""
        wait = f"the bystander's p99 is {ours.p99_ms:,.0f} ms" if ours.p99_ms > P99_MAX_MS else ""
        return [each for each in ("the broker died" if ours.end == DIED else "", turn, wait) if each]


@dataclass(slots=True)
class Target:
    """A running broker and its bystander (a normal client whose response times are measured). Iterations of the event loop are measured
    only with Ottla."""

    name: str
    process: BrokerProcess
    log_in_port: int
    turns: LongestTurn | None = None
    bystander: Bystander = field(init=False)

    def __post_init__(self) -> None:
        create_topic(self.process.bootstrap, TOPIC, 1)
        time.sleep(WARM_UP_S)
        self.bystander = Bystander(self.process.port)

    def measure_attack(self, row: Row, seconds: float) -> None:
        """Attack the broker and store the measurements in `row`; restart the broker if it died."""
        self.bystander.wait_until_calm()
        if self.turns is not None:
            self.turns.reset()
        with ThreadPoolExecutor(1) as pool:
            attacker = pool.submit(attack_for, seconds, row, self.log_in_port)
            waits_s = self.bystander.waits_until(lambda: attacker.done() or not self.process.alive)
            found = row.found[self.name] = Found(waits_s, self.turns.ms if self.turns is not None else None)
            found.answers, in_time = attacker.result()
        if not self.process.alive:
            found.end = DIED
        elif not in_time:
            found.end = "did not answer in time"
            self.process.kill()
        if found.end:
            self.process.start()
            time.sleep(WARM_UP_S)


def attack_for(seconds: float, row: Row, port: int) -> tuple[int, bool]:
    """Send the requests of `row` again and again for `seconds` seconds, at least once, to the broker at `port`; return the number of
    responses, and whether they arrived in time."""
    end, answers = time.monotonic() + seconds, 0
    while True:
        try:
            with _Attacker(port, row.who) as attacker:
                while not answers or time.monotonic() < end:
                    for _ in attacker.exchange(row.attack.frame, row.times):
                        answers += 1
        except TimeoutError:
            return answers, False
        except OSError:
            time.sleep(1 / RECONNECTIONS_PER_S)
        if time.monotonic() >= end:
            return answers, True


class _Attacker:
    """A connection that sends and reads concurrently, because a broker stops reading while its responses are not read."""

    def __init__(self, port: int, who: str) -> None:
        self._discarded = bytearray(1024 * 1024)
        self._socket = socket.create_connection((HOST, port), ANSWER_MAX_S)
        try:
            if who != NOBODY:
                self._log_in(who)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, user: str) -> None:
        token = f"\0{user}\0{PASSWORD}".encode()
        for request, version in ((SaslHandshakeRequest("PLAIN"), 1), (SaslAuthenticateRequest(token), 2)):
            assert len(list(self.exchange(_frame(request, version)))) == 1

    def __enter__(self) -> _Attacker:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def exchange(self, frame: bytes, times: int = 1) -> Iterator[int]:
        """Send the frame `times` times and yield the size of each response.

        Raises OSError if the broker closes the connection or does not answer in time.
        """
        end = time.monotonic() + (ANSWER_MAX_S if times == 1 else PIPELINED_MAX_S)
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(self._send, frame, times)
            try:
                for _ in range(times):
                    prefix = bytearray(4)
                    self._fill(memoryview(prefix), end)
                    size = left = int.from_bytes(prefix, "big")
                    while left:
                        part = memoryview(self._discarded)[:left]
                        self._fill(part, end)
                        left -= len(part)
                    yield size
                sent.result()
            finally:
                if not sent.done():
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, frame: bytes, times: int) -> None:
        for _ in range(times):
            self._socket.sendall(frame)

    def _fill(self, view: memoryview, end: float) -> None:
        """Read as many bytes as `view` has room for. Raises TimeoutError if that takes longer than until `end` (a time of time.monotonic),
        and ConnectionError if the broker closes the connection."""
        while view:
            self._socket.settimeout(max(0.001, end - time.monotonic()))
            size = self._socket.recv_into(view)
            if not size:
                raise ConnectionError
            view = view[size:]


def attacks(target: Target, versions: dict[int, int], apis: Sequence[int], elements: int) -> Iterator[Attack]:
    """Yield, for each array of each API's request, the largest request (with at most `elements` array elements) to which Ottla responds."""
    if not apis or ApiKey.PRODUCE in apis:
        yield Attack("PRODUCE", "records, zstd", RECORDS, _frame(_renumbered(), PRODUCE_VERSION))
    for key in sorted(versions, key=lambda each: (LAST.index(ApiKey(each)) + 1 if each in LAST else 0, each)):
        if apis and key not in apis:
            continue
        for array, request in largest(request_class(key), versions[key], elements):
            count, wanted = elements, request
            while not _is_answered(_frame(wanted, versions[key]), target.log_in_port) and count > SMALLEST:
                count //= 2
                wanted = dict(largest(request_class(key), versions[key], count))[array]
            yield Attack(ApiKey(key).name, array, _elements(wanted, array.split(".")), _frame(wanted, versions[key]))


def _renumbered() -> Message:
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, renumbered(RECORDS))])]
    )


def _elements(message: Any, path: list[str]) -> int:
    for name in path[:-1]:
        inner = getattr(message, name)
        message = inner[0] if isinstance(inner, list) else inner
    return len(getattr(message, path[-1]))


def _frame(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 1, "attacker", request))


def _is_answered(frame: bytes, port: int) -> bool:
    """Return whether a user without permissions gets a response to the frame. If not, the frame exceeds a limit of the broker, because the
    broker checks sizes before it authorizes."""
    try:
        with _Attacker(port, GUEST) as attacker:
            return len(list(attacker.exchange(frame))) == 1
    except OSError:
        return False


def _settings(port: int, log_in_port: int, **others: int) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        **listeners(port, log_in_port, **others),
        f"listener.name.{LOG_IN.lower()}.plain.sasl.jaas.config": f'{module} required user_{ADMIN}="{PASSWORD}" user_{GUEST}="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    }


@contextmanager
def targets(directory: Path, *, with_kafka: bool) -> Iterator[list[Target]]:
    """Start Ottla, and with `with_kafka` also Apache Kafka, over new directories. Raises BrokerFailed if a broker does not start, and
    KafkaMissing if Apache Kafka is not available."""
    with ExitStack() as stack:
        port, log_in_port, file = free_port(), free_port(), directory / "ottla.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in _settings(port, log_in_port).items()))
        broker, turns = ottla(directory / "ottla", port=port), directory / "longest-turn"
        longest = LongestTurn(turns)
        serve = ["serve", "--data-dir", str(directory / "ottla"), "--config", str(file)]
        broker.argv = [sys.executable, "-m", "client_compat.fuzz.watched", str(turns), *serve]
        found = [Target(OTTLA, stack.enter_context(broker), log_in_port, longest)]
        if with_kafka:
            node, log_in_port = ReferenceBroker(directory / "kafka", jvm=JVM), free_port()
            node.settings = {**_settings(node.port, log_in_port, CONTROLLER=node.controller_port), **THREADS}
            found.append(Target(KAFKA, stack.enter_context(node).broker, log_in_port))
        for target in found:
            stack.callback(target.bystander.close)
        yield found


def measure(
    brokers: Sequence[Target],
    apis: Sequence[int] = (),
    seconds: float = 0.5,
    *,
    who: Sequence[str] = EVERYBODY,
    pipelined: Sequence[int] = (1, PIPELINED),
    elements: int = ELEMENTS,
    on_attack: Callable[[str], None] = lambda _: None,
) -> Iterator[Row]:
    """Send each largest request of the APIs `apis` (all if empty), as each user in `who` and as many times in one piece as each number in
    `pipelined`, to all brokers; yield the measurements."""
    for attack in attacks(brokers[0], _versions(brokers), apis, elements):
        for user in who:
            for times in pipelined:
                row = Row(attack, user, times)
                on_attack(f"{attack.api} {attack.array} x{times} by {user}")
                for broker in brokers:
                    broker.measure_attack(row, seconds)
                yield row


def _versions(brokers: Sequence[Target]) -> dict[int, int]:
    """Return the highest version of each API that all brokers support."""
    if len(brokers) == 1:
        with Client(HOST, brokers[0].process.port) as client:
            listed = client.call(ApiVersionsRequest(), 0).api_keys
            return {each.api_key: each.max_version for each in listed if each.api_key in declared_keys()}
    return {key: max(found) for key, found in common_versions(*(each.process.port for each in brokers)).items()}


def cases(who: Sequence[str] = (), *, whole: bool = False) -> tuple[Sequence[str], Sequence[int]]:
    """Return the users that send each request, and the numbers of copies that each user sends in one piece. `who`: only these users;
    `whole`: also unauthenticated, and also many copies."""
    return who or (EVERYBODY if whole else AUTHENTICATED), (1, PIPELINED) if whole else (1,)


def columns(brokers: Sequence[str]) -> list[str]:
    waits = [f"{name}: bystander's {what} ms" for name in brokers for what in ("p99", "longest")]
    return ["API", "array", "elements", "bytes", "who", "times", "longest turn ms", *waits, ""]


def cells(row: Row) -> list[str]:
    waits = [f"{each:,.1f}" for found in row.found.values() for each in (found.p99_ms, found.longest_ms)]
    attack, turn_ms = row.attack, row.found[OTTLA].turn_ms or 0.0
    notes = [f"{name} {found.end or 'gave no answer'}" for name, found in row.found.items() if found.end or not found.answers]
    remarks = "; ".join([*row.complaints, *(notes if row.who != NOBODY else [])])
    return [
        attack.api,
        attack.array,
        f"{attack.elements:,}",
        f"{len(attack.frame):,}",
        row.who,
        f"{row.times}",
        f"{turn_ms:,.1f}",
        *waits,
        remarks,
    ]


def as_markdown(rows: Sequence[Row]) -> str:
    names = columns(list(rows[0].found)) if rows else []
    return "".join(f"| {' | '.join(line)} |\n" for line in [names, ["---"] * len(names), *map(cells, rows)])


def main(
    apis: Annotated[list[int] | None, typer.Argument(help="API keys; all by default.")] = None,
    *,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each attack lasts at least.")] = 0.5,
    with_kafka: Annotated[bool, typer.Option("--kafka/--no-kafka", help="Attack Apache Kafka, too.")] = True,
    who: Annotated[list[str] | None, typer.Option(help="nobody, guest or admin; the last two by default.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Also as nobody, and twelve requests at once: more than an hour.")] = False,
    table: Annotated[Path | None, typer.Option(help="A file for all rows, in Markdown.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print all rows, not only those above the goals.")] = False,
) -> None:
    """Measure how the largest legal requests affect other clients. Exit code 1 when an iteration of Ottla's event loop takes more than 50
    ms, a normal client's 99th percentile is above 0.1 s, or Ottla dies."""
    console, rows = program.new_console(), list[Row]()
    directory = Path(tempfile.mkdtemp())
    try:
        with (
            or_exit(console, "The run could not be done", KafkaMissing),
            targets(directory, with_kafka=with_kafka) as brokers,
            progress(console) as display,
        ):
            bar = display.add_task("attacks", total=None, note="")
            users, pipelined = cases(who or (), whole=whole)

            def note(attack: str) -> None:
                display.update(bar, note=attack)

            for row in measure(brokers, apis or [], seconds, who=users, pipelined=pipelined, on_attack=note):
                rows.append(row)
                display.advance(bar)
                if row.complaints:
                    console.print(f"{' '.join(cells(row)[:6])}: {'; '.join(row.complaints)}")  # a run that is ended early has shown them
                if table is not None:
                    table.write_text(as_markdown(rows))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    above = [row for row in rows if row.complaints]
    late = sum((row.found[OTTLA].turn_ms or 0.0) > GOAL_MS for row in rows)
    shown = Table(title="The largest requests, and what they cost others")
    for name in columns(list(rows[0].found) if rows else []):
        shown.add_column(name, justify="left" if name in {"API", "array", "who", ""} else "right")
    for row in rows if every else above:
        shown.add_row(*cells(row))
    console.print(shown)
    longest_ms = max((row.found[OTTLA].turn_ms or 0.0 for row in rows), default=0.0)
    console.print(f"{len(rows)} attacks; longest turn {longest_ms:,.1f} ms; {late} above {GOAL_MS:.0f} ms; {len(above)} above a limit.")
    raise typer.Exit(1 if above else 0)


if __name__ == "__main__":
    program.run(main)
