"""Checks whether the runs with and without transactions show what the demo must prove (its promises), and shows both runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.console import Group

from client_compat.demo_transactions.instance import CLIENTS
from client_compat.demo_transactions.run import KILLS, PipelineResult
from client_compat.support.demonstration import Promise, side_by_side
from ottla.spark_jobs.report import summary
from ottla.spark_jobs.verdict import RuleResult, Verdict

TRANSACTION_RULES = ("hanging-transaction", "torn-transaction", "zombie-batch")


def promises(exact: PipelineResult, plain: PipelineResult, verdict: Verdict) -> list[Promise]:
    """Return the statements that the demo must prove (promises), each with whether it was kept. `exact` is the run with transactions,
    `plain` the run without."""
    (log,) = verdict.directories
    counted, twin = exact.judgement, plain.judgement
    return [
        *(Promise(f"{r.name}: the broker was killed {KILLS} times and came back", len(r.restart_seconds) == KILLS) for r in (exact, plain)),
        *(Promise(f"{r.name}: the two instances fought (fenced {r.fenced} times)", r.fenced > 0) for r in (exact, plain)),
        *(Promise(f"{r.name}: both clients had their share ({_shares(r)})", min(r.counted) > 0) for r in (exact, plain)),
        *(Promise(f"{r.name}: all input committed (lag {r.lag})", r.lag == 0) for r in (exact, plain)),
        *(Promise(f"{r.name}: both clients read the same", r.readers_agree) for r in (exact, plain)),
        Promise(f"transactional: each flight counted once ({counted.once:,} of {counted.flights:,})", counted.once == counted.flights),
        Promise(f"transactional: every count is the right one ({counted.wrong} of {counted.counts} differ)", counted.exact),
        Promise(f"transactional: transactions were aborted, and nobody reads them ({exact.aborted:,} increments)", exact.aborted > 0),
        Promise(f"plain: the counts are not right ({twin.wrong} of {twin.counts} differ, {twin.surplus:+,} flights)", not twin.exact),
        Promise(f"the audit finds nothing ({log.violations} violations)", log.violations == 0 and not log.problems),
        *(_audited(rule, log.rules[rule]) for rule in TRANSACTION_RULES if rule in log.rules),
    ]


def _audited(rule: str, result: RuleResult) -> Promise:
    found = result.violations + result.warnings
    return Promise(f"the audit finds no {rule.replace('-', ' ')} ({found})", result.judged and found == 0)


def _share(index: int, result: PipelineResult) -> str:
    return f"{result.counted[index]:,}"


def _shares(result: PipelineResult) -> str:
    return ", ".join(f"{client} {_share(index, result)}" for index, client in enumerate(CLIENTS))


_ROWS: tuple[tuple[str, Callable[[PipelineResult], str]], ...] = (
    ("flights", lambda r: f"{r.judgement.flights:,}"),
    ("flights counted, summed over the output", lambda r: f"{r.judgement.summed:,}"),
    ("difference", lambda r: f"{r.judgement.surplus:+,}" if r.judgement.surplus else "0"),
    ("counted never", lambda r: f"{r.judgement.never:,}"),
    ("counted once", lambda r: f"{r.judgement.once:,}"),
    ("counted more than once", lambda r: f"{r.judgement.more_than_once:,}"),
    ("ranges of input counted in part", lambda r: f"{r.judgement.torn:,}"),
    ("wrong counts (carrier and hour)", lambda r: f"{r.judgement.wrong:,} of {r.judgement.counts:,}"),
    ("increments in the log", lambda r: f"{r.written:,}"),
    ("increments of aborted transactions", lambda r: f"{r.aborted:,}"),
    *((f"flights committed by {client}", partial(_share, index)) for index, client in enumerate(CLIENTS)),
    ("takeovers", lambda r: f"{r.takeovers:,}"),
    ("fenced by the other instance", lambda r: f"{r.fenced:,}"),
    ("taken over again after a failure", lambda r: f"{r.failed:,}"),
    ("broker back after SIGKILL, s (worst)", lambda r: f"{max(r.restart_seconds):.2f}"),
    ("pipeline, s", lambda r: f"{r.seconds:.1f}"),
)


def tables(exact: PipelineResult, plain: PipelineResult, verdict: Verdict) -> Group:
    """Return tables that compare the run with transactions (`exact`) and the run without (`plain`): the sums of the output, and the log's
    contents."""
    title = "Flights per carrier and hour, as read by read_committed consumers"
    return Group(side_by_side(title, {run.name: run for run in (exact, plain)}, _ROWS), summary(verdict))
