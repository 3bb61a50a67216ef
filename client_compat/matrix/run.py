"""Run the matrix. A cell is a scenario with a client on a broker. A job is one client's scenario on every broker in turn, so that a
difference between brokers shows at once.

Rules:
- Ordinary scenarios share one long-lived broker for each kind and set of settings; it is replaced if it died.
- A scenario that restarts or kills its broker, or drops responses, has its own broker.
- Programs are reused only after a cell that ended well on a shared broker.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from client_compat.matrix.brokers import KINDS, OLDER_RELEASES, Broker, BrokerFailed, Skipped, running
from client_compat.matrix.clients import CLIENTS, BuildFailed
from client_compat.matrix.control import ClientError, ProgramFailed, Unsupported
from client_compat.matrix.outcomes import Cell, Outcome
from client_compat.matrix.pool import Lease, Pool
from client_compat.matrix.scenario import Scenario, ScenarioContext, ScenarioFailed
from client_compat.matrix.truth import TruthFailed
from ottla.protocol.errors import ProtocolError

REASON_CHARS = 1_200
PLAIN = (ScenarioFailed, ClientError, ProgramFailed, BuildFailed, TruthFailed, BrokerFailed)
"""Errors whose texts are complete sentences, so that reports show them without the name of the error's type."""
FAILURES = (*PLAIN, ProtocolError, OSError, LookupError, TypeError, ValueError)
"""Errors that make a scenario fail; the last three result from a client program's malformed answer."""

SLOW_S, SLOW_FAILURES_MAX = 20.0, 3
"""If SLOW_FAILURES_MAX scenarios of a client on a peer broker (one that is shown for comparison only) have each failed after more than
SLOW_S seconds, the client's remaining scenarios on this broker are skipped."""

OnCell = Callable[[Cell], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One client and one scenario, to be run on each of `brokers`, in this order."""

    client: str
    scenario: Scenario
    brokers: tuple[str, ...]


class SharedBrokers:
    """The brokers that ordinary scenarios of the matrix share: one for each combination of kind, settings and security. A broker is started
    on first use, and again if it died."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._running: dict[tuple[str, str], Broker] = {}
        self._missing: dict[str, str | None] = {}
        self._starts = 0
        self._lock = threading.Lock()

    def missing(self, kind: str) -> str | None:
        with self._lock:
            if kind not in self._missing:
                self._missing[kind] = KINDS[kind].missing()
            return self._missing[kind]

    def get(self, kind: str, settings: Mapping[str, str], *, secured: bool = False) -> Broker:
        """Return the shared broker of this kind, settings and security; start it if none is running. Raises `Skipped` if this kind of
        broker does not support the settings, `BrokerFailed` if the broker does not start."""
        with self._lock:
            key = (kind, repr((secured, sorted(settings.items()))))
            broker = self._running.get(key)
            if broker is None or not broker.alive:
                self._starts += 1
                broker = self._stack.enter_context(
                    running(KINDS[kind], self._directory / f"{kind}-{self._starts}", settings, secured=secured)
                )
                self._running[key] = broker
            return broker

    def __enter__(self) -> SharedBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class Matrix:
    """The state of a matrix run: the pool of client programs, the shared brokers, and the clients (`peers`) that a scenario may use beside
    the client under test."""

    def __init__(self, directory: Path, pool: Pool, brokers: SharedBrokers, peers: Sequence[str]) -> None:
        self._directory, self._pool, self._brokers, self._peers = directory, pool, brokers, peers
        self._slow_failures: Counter[tuple[str, str]] = Counter()
        self._busy = threading.Lock()

    def run(self, jobs: Sequence[Job], workers: int, on_cell: OnCell) -> list[Cell]:
        """Run all jobs (a client's scenario on each broker), `workers` at a time, and return the results. `on_cell` is called in the
        caller's thread with each result, when its job is done."""
        done: list[Cell] = []
        with ThreadPoolExecutor(workers) as threads:
            futures = [threads.submit(self.run_job, job) for job in jobs]
            try:
                for future in as_completed(futures):
                    for cell in future.result():
                        on_cell(cell)
                        done.append(cell)
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        return done

    def run_job(self, job: Job) -> list[Cell]:
        with self._busy if CLIENTS[job.client].language.busy else nullcontext():
            return [self.run_cell(job.client, job.scenario, broker) for broker in job.brokers]

    def run_cell(self, client: str, scenario: Scenario, broker: str) -> Cell:
        """Run one scenario with one client on one broker, and return the result as a cell of the matrix. An error of any kind becomes the
        cell's outcome."""
        began = time.monotonic()
        found: list[str] = []
        try:
            self._attempt(client, scenario, broker, found)
            outcome, reason = Outcome.PASS, ""
        except Unsupported as error:
            outcome, reason = Outcome.UNSUPPORTED, str(error)
        except Skipped as error:
            outcome, reason = Outcome.SKIPPED, str(error)
        except FAILURES as error:
            outcome, reason = Outcome.FAIL, describe(error)
        seconds = time.monotonic() - began
        self._slow_failures[client, broker] += outcome is Outcome.FAIL and seconds > SLOW_S
        return Cell(client, scenario.title, broker, outcome, reason[:REASON_CHARS], round(seconds, 2), "; ".join(found))

    def _attempt(self, client: str, scenario: Scenario, kind: str, found: list[str]) -> None:
        if missing := self._brokers.missing(kind) or self._pool.missing(client):
            raise Skipped(missing)
        if scenario.area in KINDS[kind].lacks:
            raise Unsupported(f"new clusters of {OLDER_RELEASES[kind]} do not enable KIP-848 groups")
        if KINDS[kind].peer and self._slow_failures[client, kind] >= SLOW_FAILURES_MAX:
            raise Skipped(f"given up: {client} has waited in vain for {kind} {SLOW_FAILURES_MAX} times")
        if scenario.durable and not KINDS[kind].durable:
            raise Unsupported(f"{kind} keeps its records in memory: nothing is there after a restart")
        with self._broker(client, scenario, kind) as broker:
            lease = Lease(self._pool, self._peers, scenario.timeout_s)
            ended_well = False
            try:
                scenario.run(ScenarioContext(client, broker, lease, found))
                ended_well = True
            except Unsupported:
                ended_well = True
                raise
            finally:
                died = not broker.alive
                lease.end(usable=ended_well and not scenario.own_broker)
            if died:
                raise BrokerFailed(f"the broker is gone: {broker.process.output_tail()}")

    @contextmanager
    def _broker(self, client: str, scenario: Scenario, kind: str) -> Iterator[Broker]:
        if not scenario.own_broker:
            yield self._brokers.get(kind, scenario.settings, secured=scenario.secured)
            return
        losses = scenario.losses() if scenario.losses else None
        directory = self._directory / f"{client}-{scenario.name}-{kind}"
        with running(KINDS[kind], directory, scenario.settings, losses, secured=scenario.secured) as broker:
            yield broker


def describe(error: BaseException) -> str:
    """Return the error's text, preceded by the type's name unless the type is one of PLAIN, whose texts are complete sentences."""
    return str(error) if isinstance(error, PLAIN) else f"{type(error).__name__}: {error}"


def brokers_of(client: str, brokers: Sequence[str], named: Collection[str] = ()) -> tuple[str, ...]:
    """Return those of `brokers` on which the client runs: brokers whose `clients` name it, and brokers without such a list. The latter run
    an older version of a library only if `named` has it."""
    everywhere = client in named or not CLIENTS[client].is_old_release
    return tuple(name for name in brokers if (client in KINDS[name].clients if KINDS[name].clients else everywhere))


def chosen(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the names that equal or match (as a regular expression search) one of `words`; if `words` is empty, return all names."""
    return [name for name in names if not words or name in words or any(re.search(word, name) for word in words)]
