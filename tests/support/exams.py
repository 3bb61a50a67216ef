"""Exams of the programs in `exam_program` and `exam_member`, short ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ottla.broker.exam.candidate import Candidate, Role
from ottla.broker.exam.exam import Exam
from ottla.broker.exam.judge import Guarantee, Result, Standing
from ottla.broker.exam.scenarios import SCENARIOS
from ottla.broker.exam.stage import Stage, Terms

TERMS = Terms(timeout_s=30, restarts=3, late_ms=400)
PRODUCED, READ = 20, 40
"""Records; so many that there is a middle."""


def candidate(mode: str, *flags: str, **changes: Any) -> Candidate:
    """A program by its mode."""
    member = mode in {"consumer", "stream"}
    words = [sys.executable, "-m", f"tests.support.{'exam_member' if member else 'exam_program'}", mode, *flags]
    role = Role(mode) if member else Role.PRODUCER
    given: dict[str, Any] = {"role": role, "records": READ if member else PRODUCED, "result": None}
    if role is Role.CONSUMER:
        given["result"] = [*words, "--result"]
    return Candidate(words, **(given | changes))


def exam(directory: Path, sits: Candidate, *names: str, **changes: Any) -> Exam:
    """The exam in the scenarios of these names."""
    return Exam(sits, directory, [each for each in SCENARIOS if each.name in names], **({"terms": TERMS} | changes))


def results(directory: Path, sits: Candidate, *names: str, **changes: Any) -> dict[str, Result]:
    """What each scenario showed; the calm run has to be in order."""
    calm, *found = exam(directory, sits, *names, **changes).run()
    assert calm.standing is Standing.HELD, calm.breaches
    assert [each.name for each in found] == [each.name for each in SCENARIOS if each.name in names]
    return {each.name: each for each in found}


def standings(directory: Path, sits: Candidate, *names: str) -> dict[str, Standing]:
    """The same in one word each."""
    return {name: result.standing for name, result in results(directory, sits, *names).items()}


def broken(directory: Path, sits: Candidate, *names: str) -> dict[str, list[Guarantee]]:
    """The guarantees that did not hold in each scenario."""
    return {name: [breach.guarantee for breach in result.breaches] for name, result in results(directory, sits, *names).items()}


def stage(directory: Path, sits: Candidate, **changes: Any) -> Stage:
    """A stage to play on."""
    terms: dict[str, Any] = {"timeout_s": TERMS.timeout_s, "restarts": TERMS.restarts, "late_ms": TERMS.late_ms}
    return Stage(sits, directory, Terms(**(terms | changes)))
