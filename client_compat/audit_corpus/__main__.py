"""Command line of `make audit-corpus`: compares the audit's findings with the known faults of each log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from client_compat.audit_corpus.corruption import CORRUPTIONS, CannotCorrupt, copy_logs, read_last_segment
from client_compat.audit_corpus.truth import own_faults
from client_compat.audit_corpus.workloads import WORKLOADS, AnyBroker, Workload
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support import program
from client_compat.support.brokers import BrokerProcess, ottla
from client_compat.support.campaign import run_campaign
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.case import Expected
from ottla.spark_jobs.corpus.score import ALL_SAMPLES, Score, details, findings, judge, table, write


class Kind(StrEnum):
    """The kinds of brokers that can write the logs to audit."""

    KAFKA = "kafka"
    OTTLA = "ottla"


class OttlaBroker:
    """An Ottla broker process with the methods that the corpus's workloads call on any broker (`workloads.AnyBroker`)."""

    def __init__(self, data_dir: Path, settings: dict[str, str]) -> None:
        self.data_dir = data_dir
        self._process: BrokerProcess = ottla(data_dir, options=[f"--set={name}={value}" for name, value in settings.items()])

    @property
    def bootstrap(self) -> str:
        return self._process.bootstrap

    def start(self) -> OttlaBroker:
        self._process.start()
        return self

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.stop()

    def __enter__(self) -> OttlaBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process.alive:
            self._process.stop()


def run(kind: str, workload: Workload, data_dir: Path) -> None:
    """Run one workload on a new broker of this kind (`ottla` or `kafka`), with data in `data_dir`. Afterwards the broker is stopped, or
    killed if the workload requires it."""
    settings = dict(workload.settings)
    with ExitStack() as stack:
        started = stack.enter_context(ReferenceBroker(data_dir, settings) if kind == "kafka" else OttlaBroker(data_dir, settings))
        broker = cast("AnyBroker", started)
        workload.run(broker)
        if workload.killed:
            broker.kill()


def audit_findings(directory: Path) -> list[Expected]:
    """Return the audit's violations and warnings about a directory. Raises RuntimeError if the audit could not read or judge the
    directory."""
    verdict = audit([directory], samples=ALL_SAMPLES, engine="duckdb", deep=True)
    problems = [problem for judged in verdict.directories for problem in judged.problems]
    if problems:
        raise RuntimeError(f"{directory} could not be judged: {problems}")
    return [finding for finding in findings(verdict.directories) if finding[1] != Severity.INFO]


def corrupted_copies(log: Path, root: Path) -> Iterator[tuple[str, Path, list[Expected]]]:
    """Yield copies of a log with one planted anomaly each: (corruption, directory, expected findings)."""
    for name, corrupt in CORRUPTIONS.items():
        target = root / name
        copy_logs(log, target)
        for partition_dir in sorted(target.glob("[a-z]*-0")):
            try:
                yield name, target, corrupt(read_last_segment(partition_dir))
            except CannotCorrupt:
                continue
            break


def judge_brokers(console: Console, score: Score, root: Path, kinds: list[str], wanted: list[str]) -> None:
    """Run each workload in `wanted` on each kind of broker, and audit the log that the broker wrote: first unchanged, then in copies with
    planted faults. Adds the comparison of the audit's findings with the known faults to `score`."""
    for kind in kinds:
        for name in wanted:
            began = time.monotonic()
            log = root / kind / name / "data"
            log.parent.mkdir(parents=True)
            run(kind, WORKLOADS[name], log)
            faults = own_faults(log, log.with_name(f"{log.name}-kafka.log"))
            score.add(f"{kind}:{name}", faults, audit_findings(log))
            for corruption, directory, expected in corrupted_copies(log, log.parent / "corrupted"):
                score.add(f"{kind}:{name}:{corruption}", expected + faults, audit_findings(directory))
            if faults:
                console.print(f"{kind} {name}: {len(faults)} markers are missing, which the broker itself says it gave up", style="yellow")
            console.print(f"written and judged: {kind} {name} ({time.monotonic() - began:.0f} s)", style="dim")


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """The audit's score over all logs of a run: the findings that it reported, missed or reported wrongly. Implements
    `campaign.Outcome`."""

    score: Score

    @property
    def good(self) -> bool:
        return self.score.perfect

    def show(self, console: Console) -> None:
        console.print(table(self.score))
        for line in details(self.score):
            print(line)


def main(
    broker: Annotated[list[Kind] | None, typer.Option(help="Write logs only with this broker; may be repeated.")] = None,
    workload: Annotated[list[str] | None, typer.Option(help=f"Only this workload of {', '.join(WORKLOADS)}; may be repeated.")] = None,
    planted_only: Annotated[bool, typer.Option("--planted-only", help="Start no brokers; check only the planted logs.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep everything that was written, in this new directory.")] = None,
) -> None:
    """Audit planted logs and logs that brokers wrote, and print what the audit reports, misses and reports wrongly. The audit must report
    every planted fault, and nothing else."""
    if unknown := set(workload or ()) - set(WORKLOADS):
        raise typer.BadParameter(f"there is no workload {', '.join(sorted(unknown))}", param_hint="--workload")

    def play(console: Console, root: Path) -> CorpusScore:
        write(CASES, root / "planted")
        score = judge(CASES, root / "planted")
        if not planted_only:
            judge_brokers(console, score, root, [kind.value for kind in broker or Kind], workload or list(WORKLOADS))
        return CorpusScore(score)

    run_campaign(play, keep)


if __name__ == "__main__":
    program.run(main)
