"""Short verifications of the programs in `verified_program` and `verified_member`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ottla.broker.verification.judge import Guarantee, Result, ScenarioOutcome
from ottla.broker.verification.program import Program, Role
from ottla.broker.verification.scenarios import SCENARIOS
from ottla.broker.verification.stage import RunLimits, Stage
from ottla.broker.verification.verification import Verification

LIMITS = RunLimits(timeout_s=30, restarts=3, late_ms=400)
PRODUCED, READ = 20, 40
"""Numbers of records that a program under test produces and reads: enough that a fault can hit it in the middle of its work."""


def program(mode: str, *flags: str, **changes: Any) -> Program:
    """Return a program for `ottla verify` by its mode, a function of `verified_program` or `verified_member`."""
    member = mode in {"consumer", "stream"}
    words = [sys.executable, "-m", f"tests.support.{'verified_member' if member else 'verified_program'}", mode, *flags]
    role = Role(mode) if member else Role.PRODUCER
    given: dict[str, Any] = {"role": role, "records": READ if member else PRODUCED, "result": None}
    if role is Role.CONSUMER:
        given["result"] = [*words, "--result"]
    return Program(words, **(given | changes))


def verification(directory: Path, program: Program, *names: str, **changes: Any) -> Verification:
    """Return a verification (`ottla verify`) of the program with the named scenarios, in `directory`."""
    return Verification(program, directory, [each for each in SCENARIOS if each.name in names], **({"limits": LIMITS} | changes))


def results(directory: Path, program: Program, *names: str, **changes: Any) -> dict[str, Result]:
    """Run the scenarios, and return their results by name; the run without faults must succeed."""
    baseline, *found = verification(directory, program, *names, **changes).run()
    assert baseline.outcome is ScenarioOutcome.HELD, baseline.breaches
    assert [each.name for each in found] == [each.name for each in SCENARIOS if each.name in names]
    return {each.name: each for each in found}


def outcomes(directory: Path, program: Program, *names: str) -> dict[str, ScenarioOutcome]:
    """Return each scenario's outcome."""
    return {name: result.outcome for name, result in results(directory, program, *names).items()}


def broken(directory: Path, program: Program, *names: str) -> dict[str, list[Guarantee]]:
    """Return, by scenario, the guarantees that did not hold."""
    return {name: [breach.guarantee for breach in result.breaches] for name, result in results(directory, program, *names).items()}


def stage(directory: Path, program: Program, **changes: Any) -> Stage:
    """Return a `Stage`: the directory and time limits with which a scenario runs a program."""
    limits: dict[str, Any] = {"timeout_s": LIMITS.timeout_s, "restarts": LIMITS.restarts, "late_ms": LIMITS.late_ms}
    return Stage(program, directory, RunLimits(**(limits | changes)))
