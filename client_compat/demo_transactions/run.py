"""One run of the pipeline: two instances, each a process; five SIGKILLs of the broker; then the output is read and compared.

This process only starts, watches, kills and reads. It does not handle the pipeline's records meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress, TaskID

from client_compat.demo_transactions import topics
from client_compat.demo_transactions.counting import Counts, Increment
from client_compat.demo_transactions.instance import CLIENTS, INPUT, INPUT_PARTITIONS, Board, InstanceTask
from client_compat.demo_transactions.judge import Judgement, judge
from client_compat.demo_transactions.process import main
from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerProcess
from client_compat.support.reading import lag_of, wait_until_stable
from client_compat.support.workers import RunFailed, Workers

KILLS = 5


@dataclass(frozen=True, slots=True)
class Flights:
    """The pipeline's input after it was written: the correct counts, and the number of records in each partition."""

    direct: Counts
    sizes: list[int]

    @property
    def total(self) -> int:
        return sum(self.sizes)


@dataclass(slots=True)
class PipelineResult:
    """The result of one run of the pipeline. `written`: the number of output records in the log, including those of aborted transactions.
    `readers_agree`: both clients' read_committed consumers received the same records. `lag`: the group's lag at the end."""

    transactional: bool
    judgement: Judgement
    written: int
    readers_agree: bool
    lag: int
    counted: list[int]  # flights that each client believes to have committed
    takeovers: int
    fenced: int
    failed: int
    restart_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return "transactional" if self.transactional else "plain"

    @property
    def aborted(self) -> int:
        return self.written - self.judgement.increments


class PipelineRun:
    """One run of the pipeline, with or without transactions, on a running `broker`, which the run kills and restarts."""

    def __init__(self, broker: BrokerProcess, flights: Flights, client_log: Path, *, transactional: bool, display: Progress) -> None:
        name = "transactional" if transactional else "plain"
        self._broker, self._flights, self._display, self._name = broker, flights, display, name
        self._job = InstanceTask(broker.bootstrap, f"counts-{name}", f"counting-{name}", transactional, client_log)
        self._board, self._restarts = Board(), list[float]()

    def execute(self) -> PipelineResult:
        create_topic(self._broker.bootstrap, self._job.output, topics.OUTPUT_PARTITIONS)
        began = time.perf_counter()
        self._fight()
        ended = time.perf_counter()
        bar = self._display.add_task(f"{self._name}: reading", total=None, note="increments, by both clients")
        bootstrap, output = self._broker.bootstrap, self._job.output
        wait_until_stable(bootstrap, output, topics.OUTPUT_PARTITIONS)
        committed = topics.committed_by_confluent(bootstrap, output)
        same = _sorted(committed) == _sorted(topics.committed_by_aiokafka(bootstrap, output))
        written = len(topics.written(bootstrap, output))
        self._display.update(bar, total=len(committed), completed=len(committed))
        return PipelineResult(
            self._job.transactional,
            judge(committed, self._flights.direct, self._flights.sizes),
            written,
            same,
            lag_of(bootstrap, self._job.group, INPUT, INPUT_PARTITIONS),
            list(self._board.counted),
            sum(self._board.takeovers),
            sum(self._board.fenced),
            sum(self._board.failed),
            self._restarts,
            ended - began,
        )

    def _fight(self) -> None:
        bar = self._display.add_task(f"{self._name}: counting", total=self._flights.total, note="")
        plans = [(index, self._job, self._board) for index in range(len(CLIENTS))]
        with Workers(main, plans, self._job.client_log) as running:
            while running.any_alive():
                self._show(bar)
                if (
                    len(self._restarts) < KILLS
                    and sum(self._board.counted) >= (len(self._restarts) + 1) / (KILLS + 1) * self._flights.total
                ):
                    self._broker.kill()
                    self._restarts.append(self._broker.start())
                self._broker.check_alive()
        self._show(bar)
        if len(self._restarts) < KILLS:
            raise RunFailed(f"the run was over after {len(self._restarts)} of {KILLS} kills")

    def _show(self, bar: TaskID) -> None:
        board = self._board
        note = f"{len(self._restarts)} SIGKILLs, {sum(board.takeovers)} takeovers"
        self._display.update(bar, completed=sum(board.counted), note=note)


def _sorted(output: list[Increment]) -> list[Increment]:
    return sorted(output, key=lambda i: (i.partition, i.first, i.end, i.carrier, i.hour))
