"""Each promise of the demo can be broken, and the verdict then names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client_compat.demo_transactions.judge import Judgement
from client_compat.demo_transactions.run import KILLS, PipelineResult
from client_compat.demo_transactions.verdict import TRANSACTION_RULES, promises
from ottla.spark_jobs.verdict import DirectoryVerdict, RuleResult, Verdict

Scene = tuple[PipelineResult, PipelineResult, DirectoryVerdict]


def scene() -> Scene:
    def run(*, transactional: bool, judgement: Judgement, written: int) -> PipelineResult:
        return PipelineResult(transactional, judgement, written, True, 0, [50, 50], 8, 6, 0, [0.5] * KILLS, 9.0)

    right = Judgement(100, increments=30, summed=100, counts=20, once=100)
    wrong = Judgement(100, increments=33, summed=110, counts=20, wrong=4, once=90, more_than_once=10)
    log = DirectoryVerdict("log", rules={rule: RuleResult(judged=True) for rule in TRANSACTION_RULES})
    return run(transactional=True, judgement=right, written=35), run(transactional=False, judgement=wrong, written=33), log


def broken(scene: Scene) -> list[str]:
    exact, plain, log = scene
    return [promise.text for promise in promises(exact, plain, Verdict([log])) if not promise.kept]


def test_a_run_as_it_should_be_keeps_every_promise() -> None:
    assert broken(scene()) == []


def set_wrong_count(scene: Scene) -> None:
    scene[0].judgement.wrong = 1


def set_counted_twice(scene: Scene) -> None:
    scene[0].judgement.once = 99


def set_lag(scene: Scene) -> None:
    scene[1].lag = 1


def set_missing_kill(scene: Scene) -> None:
    scene[0].restart_seconds.pop()


def set_peace(scene: Scene) -> None:
    scene[0].fenced = 0


def set_idle_client(scene: Scene) -> None:
    scene[1].counted[0] = 0


def set_readers_that_differ(scene: Scene) -> None:
    scene[0].readers_agree = False


def set_nothing_aborted(scene: Scene) -> None:
    scene[0].written = 30


def set_exact_twin(scene: Scene) -> None:
    scene[1].judgement = scene[0].judgement


def set_violation(scene: Scene) -> None:
    scene[2].rules["zombie-batch"].violations = 1


def set_hanging_warning(scene: Scene) -> None:
    scene[2].rules["hanging-transaction"].warnings = 1


def set_rule_not_judged(scene: Scene) -> None:
    scene[2].rules["torn-transaction"].judged = False


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
def test_what_is_not_as_promised_is_told(spoil: Callable[[Scene], None], words: str) -> None:
    spoiled = scene()
    spoil(spoiled)
    told = broken(spoiled)
    assert any(words in text for text in told), told
