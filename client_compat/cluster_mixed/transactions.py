"""Real clients' transactions, which continue while brokers are killed, and the checks of what read_committed consumers receive.

Rules:
- Each transaction has a number, writes one record to every partition, and commits the next offset for its client's group (except
  librdkafka's, see `with_offsets`). A number is never used again.
- After any error the producer is opened again with its transactional id, which ends its last transaction.
- A commit without a response may have happened or not, but only as a whole.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from client_compat.cluster_mixed.groups import logged_to
from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.control import ClientError, ClientMissing, ProgramFailed
from client_compat.matrix.facades import Client, Consumer, Producer, Record
from client_compat.support.counted import SAMPLES_MAX, Counted
from client_compat.support.workers import RunFailed

ABORT_EVERY = 7
PAUSE_S = 0.1
TRANSACTION_TIMEOUT_MS = 60_000
SEND_TIMEOUT_MS = 60_000
_LOG = logging.getLogger("client_compat.transactions")
_LOG.propagate = False


class Outcome(IntEnum):
    """The result of a transaction for its client. UNKNOWN: its commit was requested, but not confirmed."""

    ABORTED = 0
    COMMITTED = 1
    UNKNOWN = 2


@dataclass(slots=True)
class TxnVerdict(Counted):
    """The comparison of the clients' transactions with the records that a read_committed consumer received. All fields count transactions,
    with two exceptions: `strange` counts received records that no client sent; `torn` also counts groups whose committed offset does not
    fit the client's last committed transaction."""

    JUDGED = "committed"
    WRONG = ("lost", "torn", "doubled", "shown", "strange")
    NOTED = ("aborted", "unknown")
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    lost: int = 0
    torn: int = 0
    doubled: int = 0
    shown: int = 0
    """The number of aborted transactions of which a read_committed consumer received records, which must not happen."""
    strange: int = 0


def value_of(client: str, number: int) -> bytes:
    return f"{client}:{number}".encode()


def group_of(client: str) -> str:
    return f"mixed-{client}"


def with_offsets(client: str) -> bool:
    """Return whether the client adds offsets to its transactions: all clients except librdkafka 2.16. librdkafka's call hangs for ever if
    the group's coordinator is no longer in the metadata, for instance because the coordinator was killed (librdkafka issues 5511 and 5456).
    """
    return client != "confluent-kafka"


class TransactionalLoad:
    """A client that runs one transaction after the other until `stop` is set. A thread controls the client's program, which runs as a
    process and writes its standard error to the file `log`."""

    def __init__(self, client: str, log: Path, bootstrap: str, topic: str, partitions: int, *, stop: threading.Event) -> None:
        self.name, self.outcomes = client, list[Outcome]()
        self.ended = 0
        """The number of transactions that the client committed or aborted without an error. It grows while the brokers serve the client."""
        self.hung = 0
        """How often the client's program was killed because a call did not return."""
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, name=f"transactions-{client}", daemon=True)
        self._program_log, self._bootstrap, self._topic, self._partitions, self._stop = log, bootstrap, topic, partitions, stop
        self._log = _LOG.getChild(client)

    def _run(self) -> None:
        try:
            while not self._one_program():
                self.hung += 1
        except (ClientMissing, ClientError, ProgramFailed) as error:
            self.error = error

    def _one_program(self) -> bool:
        """Run a client program until the load ends. Return True if it ended without an open transaction, False if the program had to be
        killed because it failed. Raises ClientMissing or ProgramFailed if the program does not start."""
        with CLIENTS[self.name].program(self._program_log) as program:
            client = Client(self.name, program, self._bootstrap)
            consumer = client.consumer(group=group_of(self.name)) if with_offsets(self.name) else None
            try:
                while not self._one_producer(client, consumer):
                    self._stop.wait(PAUSE_S)
            except ProgramFailed as error:
                self._log.error("after transaction %d, its program is killed: %s", len(self.outcomes) - 1, error)
                program.kill()
                return False
        return True

    def _one_producer(self, client: Client, consumer: Consumer | None) -> bool:
        """Open a producer, which ends the transaction that the previous producer left open, and run transactions until `stop` is set.
        Return True, or False if a call failed; the producer is closed in both cases."""
        producer, failure = None, None
        try:
            producer = client.producer(transactional_id=group_of(self.name), transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
            while not self._stop.is_set():
                self._transact(producer, consumer)
        except ClientError as error:
            failure = error
            self._log.warning("after transaction %d: %s", len(self.outcomes) - 1, error)
        if producer is not None:
            with suppress(ClientError):
                producer.close()
        return failure is None

    def _transact(self, producer: Producer, consumer: Consumer | None) -> None:
        number = len(self.outcomes)
        self.outcomes.append(Outcome.ABORTED)
        producer.begin()
        records = [Record(value_of(self.name, number), partition=partition) for partition in range(self._partitions)]
        producer.send_ok(self._topic, records, timeout_ms=SEND_TIMEOUT_MS)
        if consumer is not None:
            producer.send_offsets(consumer, {(self._topic, 0): number + 1})
        if number % ABORT_EVERY == ABORT_EVERY - 1:
            producer.abort()
        else:
            self.outcomes[number] = Outcome.UNKNOWN
            producer.commit()
            self.outcomes[number] = Outcome.COMMITTED
        self.ended += 1


@dataclass(frozen=True, slots=True)
class RunningTransactions:
    """The transactional clients of a run, which run on threads until `finish`."""

    loads: Sequence[TransactionalLoad]
    _stop: threading.Event

    @property
    def answered(self) -> list[int]:
        return [load.ended for load in self.loads]

    def check(self) -> None:
        """Raise `RunFailed` if a client's program cannot be started."""
        for load in self.loads:
            if load.error is not None:
                raise RunFailed(f"{load.name}: {load.error}")

    def finish(self, timeout_s: float) -> None:
        """Make the clients stop after their current transactions, and wait for each of them, up to `timeout_s` seconds. Raises `RunFailed`
        if a client does not stop in time, or its program could not be started."""
        self._stop.set()
        for load in self.loads:
            load.thread.join(timeout_s)
            if load.thread.is_alive():
                raise RunFailed(f"{load.name} did not end its last transaction within {timeout_s:.0f} s")
        self.check()


@contextmanager
def transacting(clients: Sequence[str], directory: Path, bootstrap: str, topic: str, partitions: int) -> Iterator[RunningTransactions]:
    """Run a transactional client of each library in `clients` while the context lasts. Yields the running clients; their `finish` ends
    them. Log files are written to `directory`."""
    stop, loads = threading.Event(), []
    with ExitStack() as stack:
        stack.enter_context(logged_to(_LOG, directory / "transactions.log"))
        for name in clients:
            loads.append(TransactionalLoad(name, directory / f"transactions-{name}.log", bootstrap, topic, partitions, stop=stop))
        stack.callback(stop.set)
        for load in loads:
            load.thread.start()
        yield RunningTransactions(loads, stop)


def judge(
    outcomes: Mapping[str, Sequence[Outcome]], offsets: Mapping[str, int], partitions: int, seen: Iterable[tuple[int, bytes]]
) -> TxnVerdict:
    """Compare the transactions with the records that a read_committed consumer received (`seen`: partition and value), and return the
    counts of differences. `outcomes`: each client's transactions, by number. `offsets`: each client's committed offset, if it commits
    offsets."""
    verdict = TxnVerdict()
    copies = Counter(seen)
    for client, ended in outcomes.items():
        wanted = max((number + 1 for number in range(len(ended)) if copies[0, value_of(client, number)]), default=0)
        if client in offsets and offsets[client] != wanted:
            verdict.torn += 1
            verdict.note(f"{client}: the group's offset is {offsets[client]}, the last transaction that readers are given is {wanted - 1}")
        for number, outcome in enumerate(ended):
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
