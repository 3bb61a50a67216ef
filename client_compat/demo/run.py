"""One run of the demo: load through three clients while the broker drops acknowledgements and is killed, then read everything back.

Rule: this process only starts, watches and kills; the records pass through the client processes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress, TaskID

from client_compat.demo import consumers, producers
from client_compat.demo.ledger import CLIENTS, MEMBERS, PARTITIONS, Ledger
from client_compat.support.admin import create_topic
from client_compat.support.brokers import ottla
from client_compat.support.places import NOT_ACKED
from client_compat.support.reading import lag_of
from client_compat.support.workers import SPAWN, RunFailed, Workers

TOPIC = "flights"
KILL_AT = 0.5  # share of acknowledged rows at which the broker is killed
LOST_ACK_SHARE = 0.05
FAULT_SEED = 7
# Beginning of the broker's debug message for a duplicate batch. It is counted, because the log does not contain such batches.
ABSORBED = b"Retry absorbed: "


@dataclass(slots=True)
class RunResult:
    """The results of one run of the demo: numbers of sent rows and of consumed records, and durations in seconds."""

    idempotent: bool
    directory: Path
    rows: int
    consumed: int = 0
    lost: int = 0
    duplicates: int = 0
    altered: int = 0
    disordered: int = 0
    failed: int = 0
    unacked: int = 0
    misplaced: int = 0  # acknowledged at an offset that holds no copy of the row
    lag: int = 0
    retries_absorbed: int = 0
    restart_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def fill(self, ledger: Ledger) -> None:
        seen, confirmed = bytes(ledger.seen), bytes(ledger.confirmed)
        self.consumed = sum(ledger.consumed)
        self.lost = seen.count(0)
        self.duplicates = sum(seen) - (len(seen) - self.lost)
        self.altered, self.disordered, self.failed = sum(ledger.altered), sum(ledger.disordered), sum(ledger.failed)
        self.unacked = sum(1 for where in ledger.acked_at if where == NOT_ACKED)
        self.misplaced = len(confirmed) - sum(confirmed) - self.unacked


class Run:
    """One run of the demo, with or without idempotence. The broker's log is written to `directory`, which must not exist; `rows` is the
    file of the `count` records to send; `display` shows the progress."""

    def __init__(self, directory: Path, rows: Path, count: int, *, idempotent: bool, display: Progress) -> None:
        self._rows, self._display = rows, display
        self._result = RunResult(idempotent, directory, count)
        self._ledger = Ledger(count)
        self._name = "idempotent" if idempotent else "plain"
        fault = f"drop-ack:api=Produce,share={LOST_ACK_SHARE},seed={FAULT_SEED}"
        # The output file is next to the directory, because the directory holds only what Kafka's would.
        self._broker = ottla(directory, options=["--fault", fault, "--log-level", "debug"])
        self._client_log = directory.with_name(f"{directory.name}-clients.log")

    def execute(self) -> RunResult:
        result = self._result
        with self._broker as broker:
            create_topic(broker.bootstrap, TOPIC, PARTITIONS)
            began = time.perf_counter()
            self._load()
            loaded = time.perf_counter()
            self._read_back()
            result.lag = lag_of(broker.bootstrap, consumers.GROUP, TOPIC, PARTITIONS)
            result.seconds |= {"load": loaded - began, "read back": time.perf_counter() - loaded}
        result.fill(self._ledger)
        result.retries_absorbed = self._broker.output.read_bytes().count(ABSORBED)
        return result

    def _load(self) -> None:
        shares = [len(range(index, self._result.rows, len(CLIENTS))) for index in range(len(CLIENTS))]
        bars = [self._bar(f"{self._name}: {client}", share) for client, share in zip(CLIENTS, shares, strict=True)]
        load = producers.ProducerTask(self._broker.bootstrap, TOPIC, self._rows, self._result.idempotent, self._client_log)
        plans, killed = [(index, load, self._ledger) for index in range(len(CLIENTS))], False
        with Workers(producers.main, plans, self._client_log) as running:
            while running.any_alive():
                self._show(bars, self._ledger.acked)
                if not killed and sum(self._ledger.acked) >= KILL_AT * self._result.rows:
                    killed = True
                    self._kill_and_restart(bars)
                self._broker.check_alive()
        self._show(bars, self._ledger.acked)
        if not killed:
            raise RunFailed(f"half of the rows were never acknowledged; the clients' own words are in {self._client_log}")

    def _kill_and_restart(self, bars: Sequence[TaskID]) -> None:
        self._broker.kill()
        self._result.restart_seconds = self._broker.start()
        for bar in bars:
            self._display.update(bar, note=f"SIGKILL, back in {self._result.restart_seconds:.2f} s")

    def _read_back(self) -> None:
        bars = [self._bar(f"{self._name}: group member {index}", None) for index in range(MEMBERS)]
        together = SPAWN.Barrier(MEMBERS)
        task = consumers.Readback(self._broker.bootstrap, TOPIC, self._rows, self._client_log)
        plans = [(member, task, self._ledger, together) for member in range(MEMBERS)]
        with Workers(consumers.main, plans, self._client_log) as running:
            while running.any_alive():
                self._show(bars, self._ledger.consumed)
                self._broker.check_alive()
        for index, bar in enumerate(bars):
            self._display.update(bar, completed=self._ledger.consumed[index], total=self._ledger.consumed[index])

    def _bar(self, title: str, total: int | None) -> TaskID:
        return self._display.add_task(title, total=total, note="")

    def _show(self, bars: Sequence[TaskID], counts: Sequence[int]) -> None:
        for bar, count in zip(bars, counts, strict=True):
            self._display.update(bar, completed=count)
