"""Checks whether the demo's two runs, with and without idempotence, show what the demo must prove (its promises), and shows both runs side
by side."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group

from client_compat.demo.run import RunResult
from client_compat.support.demonstration import Promise, side_by_side
from ottla.spark_jobs.report import summary
from ottla.spark_jobs.verdict import DirectoryVerdict, Verdict

BUSINESS_KEY = "row"
RULE_OF_BUSINESS_KEY = "business-key"


def audited_duplicates(directory: DirectoryVerdict) -> int:
    """Return how many additional copies of flights the audit found in a log. Copies have equal row numbers, which are the business key."""
    result = directory.rules[RULE_OF_BUSINESS_KEY]
    return result.violations + result.warnings + result.infos


def broken_rules(directory: DirectoryVerdict) -> int:
    """Return the number of violations that the audit found in a log, without those of its rule about business keys, which finds repeated
    flights."""
    return directory.violations - directory.rules[RULE_OF_BUSINESS_KEY].violations


def promises(idempotent: RunResult, plain: RunResult, verdict: Verdict) -> list[Promise]:
    """Return the statements that the demo must prove (promises), each with whether the two runs and the audit's verdict prove it."""
    with_it, without = verdict.directories
    return [
        *(promise for result in (idempotent, plain) for promise in _of_any_run(result)),
        Promise(f"idempotent: no flight twice ({idempotent.duplicates} copies)", idempotent.duplicates == 0),
        Promise(f"idempotent: order kept ({idempotent.disordered} out of order)", idempotent.disordered == 0),
        Promise(
            f"idempotent: lost acknowledgements led to retries ({idempotent.retries_absorbed} absorbed)", idempotent.retries_absorbed > 0
        ),
        Promise(f"idempotent: the audit finds nothing ({with_it.violations} violations)", with_it.violations == 0 and not with_it.problems),
        Promise(f"idempotent: the audit counts every record ({with_it.records:,})", with_it.records == idempotent.consumed),
        Promise(f"plain: the same faults write flights twice ({plain.duplicates} copies)", plain.duplicates > 0),
        Promise(
            f"plain: the audit finds by row number what the consumers counted ({audited_duplicates(without)} and {plain.duplicates})",
            audited_duplicates(without) == plain.duplicates,
        ),
        Promise(
            f"plain: the log itself is sound ({broken_rules(without)} violations)", broken_rules(without) == 0 and not without.problems
        ),
    ]


def _of_any_run(result: RunResult) -> list[Promise]:
    name = "idempotent" if result.idempotent else "plain"
    unsent = result.failed + result.unacked
    return [
        Promise(f"{name}: every flight acknowledged ({unsent} were not)", unsent == 0),
        Promise(f"{name}: no flight lost ({result.lost})", result.lost == 0),
        Promise(f"{name}: every byte as sent ({result.altered} altered)", result.altered == 0),
        Promise(f"{name}: every acknowledged offset holds its flight ({result.misplaced} do not)", result.misplaced == 0),
        Promise(f"{name}: the group committed to the end (lag {result.lag})", result.lag == 0),
    ]


_CLIENT_ROWS: tuple[tuple[str, Callable[[RunResult], str]], ...] = (
    ("flights sent and acknowledged", lambda r: f"{r.rows - r.failed - r.unacked:,}"),
    ("records consumed by the group", lambda r: f"{r.consumed:,}"),
    ("lost", lambda r: f"{r.lost:,}"),
    ("duplicated", lambda r: f"{r.duplicates:,}"),
    ("altered", lambda r: f"{r.altered:,}"),
    ("out of order (per client and carrier)", lambda r: f"{r.disordered:,}"),
    ("not at the acknowledged offset", lambda r: f"{r.misplaced:,}"),
    ("retries absorbed by the broker (batches)", lambda r: f"{r.retries_absorbed:,}"),
    ("broker back after SIGKILL, s", lambda r: f"{r.restart_seconds:.2f}"),
    ("load, s", lambda r: f"{r.seconds['load']:.1f}"),
    ("read back and compare, s", lambda r: f"{r.seconds['read back']:.1f}"),
)


def tables(idempotent: RunResult, plain: RunResult, verdict: Verdict) -> Group:
    """Return two tables that compare the runs: the results that the clients observed, and the audit's."""
    return Group(side_by_side("What the clients saw", {"idempotent": idempotent, "plain": plain}, _CLIENT_ROWS), summary(verdict))
