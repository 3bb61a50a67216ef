"""Scenarios of the compatibility matrix: functions that test a client with a broker. A scenario has a name, a promise (one sentence that it
proves) and requirements, and gets a `ScenarioContext`.

Rules:
- A scenario creates topics and groups with unique names, so that all scenarios can share a broker.
- It checks results with `expect`, whose text states what was expected.
- If the client's API lacks an operation, the scenario ends as `Unsupported`, which is no failure.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, Unpack

from client_compat.clients.options import ConsumerOptions, ProducerOptions
from client_compat.matrix.broker_security import LISTENERS, BrokerSecurity
from client_compat.matrix.brokers import Broker
from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Admin, Client, ConsumedRecord, Consumer, Producer
from client_compat.matrix.outcomes import plain
from client_compat.matrix.proxy import Losses
from client_compat.matrix.rights import Rights
from client_compat.matrix.truth import Truth

T = TypeVar("T")
SHOWN, SHOWN_CHARS = 10, 300
TIMEOUT_S = 90.0


class ScenarioFailed(AssertionError):
    """Raised when a scenario's promise does not hold; the text says what was expected and what was found."""


def expect(holds: bool, what: str) -> None:
    """Raise `ScenarioFailed` with the text `what` unless `holds` is true."""
    if not holds:
        raise ScenarioFailed(what)


def same(found: object, wanted: object, what: str) -> None:
    """Raise `ScenarioFailed` unless `found` equals `wanted`. The error's text begins with `what`, and shows where two mappings or lists
    differ."""
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in found | wanted if found.get(key) != wanted.get(key)]
        found, wanted = ({key: side.get(key) for key in keys} for side in (found, wanted))
        what = f"{what}, where they differ ({len(keys)})"
    elif isinstance(found, list) and isinstance(wanted, list):
        at = next((n for n, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), min(len(found), len(wanted)))
        what = f"{what}, {len(found)} against {len(wanted)}, from the first that differs ({at})"
        found, wanted = found[at : at + SHOWN], wanted[at : at + SHOWN]
    raise ScenarioFailed(f"{what}: {_short(found)}, where {_short(wanted)} was to be")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text)} characters)"


class Programs(Protocol):
    """The interface through which a scenario gets client programs. `take` returns a program of a client, `others` the names of the other
    clients that it may use."""

    def take(self, client: str) -> Any: ...

    def others(self) -> Sequence[str]: ...


_numbers = itertools.count(1)


@dataclass(slots=True)
class ScenarioContext:
    """The state of one run of a scenario: the client under test, the broker, the client programs in use, and the errors that the client
    reported."""

    client_name: str
    broker: Broker
    programs: Programs
    found: list[str] = field(default_factory=list)
    _clients: list[Client] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """The client under test, in the first of the client's programs that the scenario uses."""
        return self._clients[0] if self._clients else self.another()

    def another(self) -> Client:
        """Return the client under test in an additional program of its own, for instance a second group member, or a program to be
        killed."""
        found = Client(self.client_name, self.programs.take(self.client_name), self.broker.bootstrap)
        self._clients.append(found)
        return found

    def other(self, name: str) -> Client:
        """Return a program of another client on the same broker. Raises `Skipped` if it is not available here."""
        return Client(name, self.programs.take(name), self.broker.bootstrap)

    def at_listener(self, listener: str, protocol: str | None = None, **given: Any) -> Client:
        """Return the client under test, in its first program, at a secured listener; `given` are arguments of `BrokerSecurity.security`."""
        broker_security = self.broker_security
        security = broker_security.security(protocol or LISTENERS[listener], **given)
        return replace(self.client, bootstrap=broker_security.bootstrap(listener), security=security)

    @property
    def broker_security(self) -> BrokerSecurity:
        assert self.broker.broker_security is not None, "the scenario is of a broker without security"
        return self.broker.broker_security

    @property
    def rights(self) -> Rights:
        return Rights(self.broker.process.port)

    def note(self, error: ClientError | None, what: str = "") -> None:
        """Record the error that the client reported (None: no error). The matrix fails if the client reports something else on Apache
        Kafka."""
        text = "no error" if error is None else plain(str(error))
        self.found.append(f"{what}: {text}" if what else text)

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        return self.client.producer(**options)

    def consumer(self, **options: Unpack[ConsumerOptions]) -> Consumer:
        return self.client.consumer(**options)

    @property
    def admin(self) -> Admin:
        return self.client.admin

    @property
    def truth(self) -> Truth:
        return self.broker.truth

    def name(self, word: str = "t") -> str:
        """Return a name for a topic or group that no other scenario uses."""
        return f"{word}-{self.client_name}-{os.getpid()}-{next(_numbers)}"

    def topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic with Ottla's own protocol code instead of the client under test; return its name."""
        name = self.name("topic")
        self.truth.create_topic(name, partitions, configs)
        return name

    def read(self, topic: str, count: int, *, partitions: int = 1, **options: Unpack[ConsumerOptions]) -> list[ConsumedRecord]:
        """Read the topic from the beginning with the client under test, until `count` records arrived; return them, ordered within each
        partition."""
        options.setdefault("reset", "earliest")
        consumer = self.consumer(**options)
        consumer.assign([(topic, index) for index in range(partitions)])
        taken = poll_until(consumer, count)
        consumer.close()
        return taken


def poll_until(consumer: Consumer, count: int, *, timeout_ms: int = 30_000) -> list[ConsumedRecord]:
    """Poll until `count` records arrived, and return them. Raises `ScenarioFailed`, whose text says how many arrived."""
    taken = consumer.poll(count, timeout_ms)
    expect(len(taken) >= count, f"{len(taken)} of {count} records came within {timeout_ms / 1000:.0f} s")
    return taken


def in_parallel(*calls: Callable[[], T]) -> list[T]:
    """Run the calls in parallel, each in a thread, and return their results in order. Waits until all calls have ended; then raises the
    first error, if any."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]


Run = Callable[[ScenarioContext], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A registered scenario.

    - `area`: the name of its module.
    - `own_broker`: it restarts or kills its broker, or needs a proxy that drops responses.
    - `durable`: it restarts a broker, whose data has to survive.
    - `quick`: CI runs it for every client.
    - `secured`: its broker has listeners with TLS and authentication (`BrokerSecurity`).
    - `clients`: the only clients that run it; if empty, all do.
    """

    name: str
    area: str
    promise: str
    run: Run
    own_broker: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    losses: Callable[[], Losses] | None = None
    durable: bool = False
    quick: bool = False
    timeout_s: float = TIMEOUT_S
    secured: bool = False
    clients: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        return f"{self.area}/{self.name}"


REGISTRY: dict[str, Scenario] = {}


def scenario(
    promise: str,
    *,
    own_broker: bool = False,
    settings: Mapping[str, str] | None = None,
    losses: Callable[[], Losses] | None = None,
    durable: bool = False,
    quick: bool = False,
    timeout_s: float = TIMEOUT_S,
    secured: bool = False,
    clients: frozenset[str] = frozenset(),
) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as a scenario, under its own name with hyphens. `promise` says in one sentence what the
    scenario proves; the other parameters are fields of `Scenario`."""

    def register(run: Run) -> Run:
        name, area = run.__name__.replace("_", "-"), run.__module__.rpartition(".")[2]
        assert name not in REGISTRY, f"{name} is taken"
        own = own_broker or durable or losses is not None
        REGISTRY[name] = Scenario(name, area, promise, run, own, settings or {}, losses, durable, quick, timeout_s, secured, clients)
        return run

    return register
