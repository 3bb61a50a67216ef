"""The whole verification: the run without faults (the calm run), then one scenario after the other, each with fresh brokers.

Rules:
- The calm run shows what the program should achieve in every run.
- If two calm runs differ, or records cannot be told apart, no verdict is possible; that is reported instead of guessed. The second calm run
  is made when a scenario shows that something is missing and something else is there instead.
- A scenario whose fault did not occur is tried once more, with the fault at the first request.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.broker.testing.anomalies import Identity, by_value
from ottla.broker.verification.judge import (
    SETTINGS_LOST_IT,
    Breach,
    Guarantee,
    Result,
    Standing,
    achieved,
    breaches,
    calm_breaches,
    exposed,
)
from ottla.broker.verification.program import Program
from ottla.broker.verification.real_cluster import RealCluster
from ottla.broker.verification.scenario import Calm, Scenario
from ottla.broker.verification.stage import RunLimits, Script, Stage

CALM, CALM_AGAIN = "calm", "calm-again"
CALM_HAPPENS = "the run without faults, which defines what the program should achieve"


class CannotVerify(Exception):
    """The program under test cannot be judged, for instance because it does not finish even without faults; the text says why and what to
    do."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification of the program under test by `scenarios`, with the same `limits` for each run. `directory` gets a subdirectory for
    each scenario, which is removed after the scenario unless `keep`. `by` identifies the records that the program writes."""

    program: Program
    directory: Path
    scenarios: Sequence[Scenario]
    limits: RunLimits = field(default_factory=RunLimits)
    by: Identity = by_value
    keep: bool = False
    cluster: RealCluster | None = None
    """The user's cluster to verify on; None for brokers in this process."""

    def run(self, begins: Callable[[str], object] = lambda _: None) -> Iterator[Result]:
        """Run all scenarios and yield their results, first that of the run without faults. `begins` is called with each scenario's name
        before it runs.

        Raises CannotVerify if the program cannot be judged, CannotStart if it cannot be run, and RuntimeError or OSError if the
        verification cannot continue.
        """
        begins(CALM)
        first, calm = self._calm(CALM)
        yield first
        if first.of(Guarantee.FINISHED):
            last = first.breaches[-1]
            raise CannotVerify(f"the program does not finish even without faults: {last.says}; {last.explanation.strip()}")
        if first.of(Guarantee.ONCE):
            raise CannotVerify(_alike(first))
        if not calm.achieved:
            raise CannotVerify(_nothing_achieved(self.program))
        steady = False
        for scenario in self.scenarios:
            reason = scenario.applies(calm)
            if reason is not None:
                yield Result(scenario.name, scenario.happens, Standing.DOES_NOT_APPLY, reason)
                continue
            if self.cluster is not None and scenario.needs_power is not None:
                yield Result(scenario.name, scenario.happens, Standing.CANNOT_RUN, scenario.needs_power)
                continue
            begins(scenario.name)
            result = self._run(scenario, calm)
            if result.standing is Standing.NOT_MET:
                result = self._run(scenario, calm.with_faults_from_the_start())
            if not steady and result.of(Guarantee.COMPLETE) and result.of(Guarantee.ONCE):
                if self._calm(CALM_AGAIN)[1].achieved != calm.achieved:
                    raise CannotVerify(_differs(self.program))
                steady = True
            yield result

    def _calm(self, name: str) -> tuple[Result, Calm]:
        directory = self.directory / name
        with self._stage(name, directory) as stage:
            ending = stage.play(_just_run(stage))
            stage.settle()
            topics, effects, found = achieved(stage, self.by)
            broken = calm_breaches(stage, effects, found)
        result = Result(name, CALM_HAPPENS, Standing.BROKEN if broken else Standing.HELD, "", broken, ending)
        self._clear(directory, result)
        return result, Calm(self.program.role, stage.observer, topics, frozenset(effects))

    def _run(self, scenario: Scenario, calm: Calm) -> Result:
        directory = self.directory / (f"{scenario.name}-from-the-start" if calm.from_the_start else scenario.name)
        with self._stage(scenario.name, directory, scenario.brokers) as stage:
            ending = stage.play(scenario.script(stage, calm))
            stage.settle()
            broken = breaches(stage, calm, self.by)
            reason = exposed(stage)
        standing = _outcome(broken, reason, met=ending.met)
        note = SETTINGS_LOST_IT if any(each.by_setting for each in broken) else reason or ""
        result = Result(scenario.name, scenario.happens, standing, note, broken, ending)
        self._clear(directory, result)
        return result

    def _stage(self, name: str, directory: Path, brokers: int = 1) -> Stage:
        deployment = None if self.cluster is None else self.cluster.deployment(name)
        return Stage(self.program, directory, self.limits, brokers, deployment)

    def _clear(self, directory: Path, result: Result) -> None:
        if not self.keep:
            shutil.rmtree(directory, ignore_errors=True)
        elif result.breaches:
            result.note = f"{result.note}{'; ' if result.note else ''}kept in {directory}"


def _just_run(stage: Stage) -> Script:
    stage.start()
    yield stage.nearly_over()


def _outcome(broken: Sequence[Breach], reason: str | None, *, met: bool) -> Standing:
    if reason:
        return Standing.EXPOSED
    if any(not each.by_setting for each in broken):
        return Standing.BROKEN
    if broken:
        return Standing.LOST_BY_SETTING
    return Standing.HELD if met else Standing.NOT_MET


def _alike(calm: Result) -> str:
    breach = calm.of(Guarantee.ONCE)
    explanation = "" if breach is None else f"{breach.says}\n{breach.explanation}"
    return (
        "the program achieves something twice even without faults: if these are two different things, name what identifies them "
        f"(--by, --result); if not, fix that first: {explanation}"
    )


def _differs(program: Program) -> str:
    results = "effects" if program.role.has_effects else "records"
    hint = (
        "print only what is the same in each run"
        if program.role.has_effects
        else "name what is the same in each run: --by key, --by json:FIELD"
    )
    return f"two runs without faults produce different {results}, so nothing can be compared: {hint}"


def _nothing_achieved(program: Program) -> str:
    if program.role.has_effects:
        return "the program reported no effects: print one a line, or name a command that does with --result"
    return "the program wrote no readable record: does it use OTTLA_BOOTSTRAP_SERVERS (or {bootstrap} in the command)?"
