"""Transactions from real clients that never stop for a dead broker, and what readers must find of each.

Rules: a transaction writes one record to every partition and is numbered; a number is never tried again. Whatever goes wrong, the producer
is opened anew with its transactional id, which ends what the last one left. Commits that nobody answered may be there or not, but whole.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.control import ClientError, ProgramFailed
from client_compat.matrix.facades import Client, Producer, Record
from client_compat.support.workers import RunFailed

ABORT_EVERY = 7
PAUSE_S = 0.1
TRANSACTION_TIMEOUT_MS = 60_000
SEND_TIMEOUT_MS = 60_000
SAMPLES_MAX = 10


class Outcome(IntEnum):
    """What a client was told of one transaction. UNKNOWN: its commit was asked for, and not answered with success."""

    ABORTED = 0
    COMMITTED = 1
    UNKNOWN = 2


@dataclass(slots=True)
class TxnVerdict:
    """Counts of transactions; `samples` names the first that are wrong. Only a `strange` number is of records."""

    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    lost: int = 0
    torn: int = 0
    doubled: int = 0
    shown: int = 0
    """Aborted, and yet given to readers."""
    strange: int = 0
    samples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.committed > 0 and not any((self.lost, self.torn, self.doubled, self.shown, self.strange))

    def note(self, text: str) -> None:
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(text)


def value_of(client: str, number: int) -> bytes:
    return f"{client}:{number}".encode()


class TransactionalLoad:
    """One client's transactions, on a thread that drives its program until `stop`."""

    def __init__(self, client: Client, topic: str, partitions: int, stop: threading.Event) -> None:
        self.name, self.outcomes, self.ended = client.name, list[Outcome](), 0
        """`ended`: how many transactions ended as they were told to, which grows while the load is served."""
        self._client, self._topic, self._partitions, self._stop = client, topic, partitions, stop
        self._log = logging.getLogger(f"transactions.{client.name}")
        self.error: ProgramFailed | None = None
        self.thread = threading.Thread(target=self._run, name=f"transactions-{client.name}", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._one_producer()
        except ProgramFailed as error:
            self.error = error

    def _one_producer(self) -> None:
        """From its opening to its first failure, or to the end of the load."""
        producer: Producer | None = None
        try:
            producer = self._client.producer(transactional_id=f"mixed-{self.name}", transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            while not self._stop.is_set():
                self._transact(producer)
        except ClientError as error:
            self._log.warning("after transaction %d: %s", len(self.outcomes) - 1, error)
            self._stop.wait(PAUSE_S)
        finally:
            if producer is not None:
                with suppress(ClientError):
                    producer.close()

    def _transact(self, producer: Producer) -> None:
        number = len(self.outcomes)
        self.outcomes.append(Outcome.ABORTED)
        producer.begin()
        records = [Record(value_of(self.name, number), partition=partition) for partition in range(self._partitions)]
        producer.send_ok(self._topic, records, timeout_ms=SEND_TIMEOUT_MS)
        if number % ABORT_EVERY == ABORT_EVERY - 1:
            producer.abort()
        else:
            self.outcomes[number] = Outcome.UNKNOWN
            producer.commit()
            self.outcomes[number] = Outcome.COMMITTED
        self.ended += 1


@dataclass(frozen=True, slots=True)
class RunningTransactions:
    """The clients at work."""

    loads: Sequence[TransactionalLoad]
    _stop: threading.Event

    @property
    def answered(self) -> list[int]:
        return [load.ended for load in self.loads]

    def check(self) -> None:
        """Raises `RunFailed` when a client's program is gone or hangs."""
        for load in self.loads:
            if load.error is not None:
                raise RunFailed(f"{load.name}: {load.error}")

    def finish(self, timeout_s: float) -> None:
        """Let each end the transaction that it is in. Raises `RunFailed`."""
        self._stop.set()
        for load in self.loads:
            load.thread.join(timeout_s)
            if load.thread.is_alive():
                raise RunFailed(f"{load.name} did not end its last transaction within {timeout_s:.0f} s")
        self.check()


@contextmanager
def transacting(clients: Sequence[str], directory: Path, bootstrap: str, topic: str, partitions: int) -> Iterator[RunningTransactions]:
    """All clients at work until `finish`; no program is left afterwards. Raises `ClientMissing` or `ProgramFailed`."""
    stop, loads = threading.Event(), []
    with ExitStack() as stack:
        for name in clients:
            program = stack.enter_context(CLIENTS[name].program(directory / f"transactions-{name}.log"))
            loads.append(TransactionalLoad(Client(name, program, bootstrap), topic, partitions, stop))
        stack.callback(stop.set)
        for load in loads:
            load.thread.start()
        yield RunningTransactions(loads, stop)


def judge(outcomes: Mapping[str, Sequence[Outcome]], partitions: int, seen: Iterable[tuple[int, bytes]]) -> TxnVerdict:
    """`outcomes` by client and number, and what a read_committed consumer was given: (partition, value)."""
    verdict = TxnVerdict()
    copies = Counter(seen)
    for client, told in outcomes.items():
        for number, outcome in enumerate(told):
            _judge_one(verdict, f"{client} {number}", outcome, [copies.pop((p, value_of(client, number)), 0) for p in range(partitions)])
    verdict.strange = copies.total()
    for partition, value in list(copies)[:SAMPLES_MAX]:
        verdict.note(f"partition {partition} holds a value nobody sent: {value[:40]!r}")
    return verdict


def _judge_one(verdict: TxnVerdict, what: str, outcome: Outcome, copies: Sequence[int]) -> None:
    visible = sum(count > 0 for count in copies)
    verdict.committed += outcome == Outcome.COMMITTED
    verdict.aborted += outcome == Outcome.ABORTED
    verdict.unknown += outcome == Outcome.UNKNOWN
    if max(copies) > 1:
        verdict.doubled += 1
        verdict.note(f"{what} stands more than once: {copies} by partition")
    if outcome == Outcome.ABORTED and visible:
        verdict.shown += 1
        verdict.note(f"{what} was aborted, and readers are given {visible} of its {len(copies)} records")
    elif 0 < visible < len(copies):
        verdict.torn += 1
        verdict.note(f"{what} ({outcome.name.lower()}) is torn: {visible} of its {len(copies)} records are given to readers")
    elif outcome == Outcome.COMMITTED and not visible:
        verdict.lost += 1
        verdict.note(f"{what} was committed, and is lost")
