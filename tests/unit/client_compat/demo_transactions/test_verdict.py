"""Each promise of the demo can be broken, and the verdict then names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client_compat.demo_transactions.judge import Judgement
from client_compat.demo_transactions.run import KILLS, PipelineResult
from client_compat.demo_transactions.verdict import TRANSACTION_RULES, promises
from ottla.spark_jobs.verdict import DirectoryVerdict, RuleResult, Verdict

Results = tuple[PipelineResult, PipelineResult, DirectoryVerdict]


def results() -> Results:
    def run(*, transactional: bool, judgement: Judgement, written: int) -> PipelineResult:
        return PipelineResult(transactional, judgement, written, True, 0, [50, 50], 8, 6, 0, [0.5] * KILLS, 9.0)

    right = Judgement(100, increments=30, summed=100, counts=20, once=100)
    wrong = Judgement(100, increments=33, summed=110, counts=20, wrong=4, once=90, more_than_once=10)
    log = DirectoryVerdict("log", rules={rule: RuleResult(judged=True) for rule in TRANSACTION_RULES})
    return run(transactional=True, judgement=right, written=35), run(transactional=False, judgement=wrong, written=33), log


def broken(results: Results) -> list[str]:
    exact, plain, log = results
    return [promise.text for promise in promises(exact, plain, Verdict([log])) if not promise.kept]


def test_correct_run_keeps_every_promise() -> None:
    assert broken(results()) == []


def set_wrong_count(results: Results) -> None:
    results[0].judgement.wrong = 1


def set_counted_twice(results: Results) -> None:
    results[0].judgement.once = 99


def set_lag(results: Results) -> None:
    results[1].lag = 1


def set_missing_kill(results: Results) -> None:
    results[0].restart_seconds.pop()


def set_peace(results: Results) -> None:
    results[0].fenced = 0


def set_idle_client(results: Results) -> None:
    results[1].counted[0] = 0


def set_readers_that_differ(results: Results) -> None:
    results[0].readers_agree = False


def set_nothing_aborted(results: Results) -> None:
    results[0].written = 30


def set_exact_twin(results: Results) -> None:
    results[1].judgement = results[0].judgement


def set_violation(results: Results) -> None:
    results[2].rules["zombie-batch"].violations = 1


def set_hanging_warning(results: Results) -> None:
    results[2].rules["hanging-transaction"].warnings = 1


def set_rule_not_judged(results: Results) -> None:
    results[2].rules["torn-transaction"].judged = False


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (set_wrong_count, "every count is the right one"),
        (set_counted_twice, "each flight counted once"),
        (set_lag, "plain: all input committed"),
        (set_missing_kill, "transactional: the broker was killed"),
        (set_peace, "transactional: the two instances fought"),
        (set_idle_client, "plain: both clients had their share"),
        (set_readers_that_differ, "transactional: both clients read the same"),
        (set_nothing_aborted, "transactions were aborted"),
        (set_exact_twin, "plain: the counts are not right"),
        (set_violation, "no zombie batch"),
        (set_hanging_warning, "no hanging transaction"),
        (set_rule_not_judged, "no torn transaction"),
    ],
)
def test_broken_promise_is_reported(spoil: Callable[[Results], None], words: str) -> None:
    spoiled = results()
    spoil(spoiled)
    problems = broken(spoiled)
    assert any(words in text for text in problems), problems
