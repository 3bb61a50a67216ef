"""The whole course of `ottla verify`: the run without faults (the baseline run), then one scenario after the other, each with fresh
brokers.

Rules:
- The baseline run shows what the program under test should achieve in every run.
- If two baseline runs differ, or records cannot be told apart, no verdict is possible; then that is reported. The second baseline run is
  made only if, in some scenario, expected records or effects are missing and unexpected or repeated ones are there.
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
    ScenarioOutcome,
    achieved,
    baseline_breaches,
    breaches,
    undetectable_by_client,
)
from ottla.broker.verification.program import Program
from ottla.broker.verification.scenario import Baseline, Scenario
from ottla.broker.verification.stage import RunLimits, Script, Stage
from ottla.broker.verification.user_cluster import UserCluster

BASELINE, BASELINE_AGAIN = "calm", "calm-again"
"""The names of the runs without faults in results, in directories, and in topics on a user's cluster."""
BASELINE_HAPPENS = "the run without faults, which defines what the program should achieve"


class CannotVerify(Exception):
    """The program under test cannot be judged, for instance because it does not finish even without faults; the text says why and what to
    do."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification of the program under test: it runs all `scenarios`, with the same `limits` for each run. `directory` gets a
    subdirectory for each scenario, which is deleted after the scenario except with `keep`. `by` maps a record that the program writes to
    its identity."""

    program: Program
    directory: Path
    scenarios: Sequence[Scenario]
    limits: RunLimits = field(default_factory=RunLimits)
    by: Identity = by_value
    keep: bool = False
    cluster: UserCluster | None = None
    """The user's cluster on which the scenarios run; None if they run on brokers in this process."""

    def run(self, begins: Callable[[str], object] = lambda _: None) -> Iterator[Result]:
        """Run all scenarios and yield their results; the first result is that of the run without faults. The function `begins` is called
        with each scenario's name before the scenario runs.

        Raises CannotVerify if the program cannot be judged, CannotStart if it cannot be run, and RuntimeError or OSError if `ottla verify`
        cannot continue.
        """
        begins(BASELINE)
        first, baseline = self._run_baseline(BASELINE)
        yield first
        if first.of(Guarantee.FINISHED):
            last = first.breaches[-1]
            raise CannotVerify(f"the program does not finish even without faults: {last.summary}; {last.explanation.strip()}")
        if first.of(Guarantee.ONCE):
            raise CannotVerify(_not_once_text(first))
        if not baseline.achieved:
            raise CannotVerify(_nothing_achieved(self.program))
        steady = False
        for scenario in self.scenarios:
            reason = scenario.applies(baseline)
            if reason is not None:
                yield Result(scenario.name, scenario.happens, ScenarioOutcome.DOES_NOT_APPLY, reason)
                continue
            if self.cluster is not None and scenario.why_not_on_user_cluster is not None:
                yield Result(scenario.name, scenario.happens, ScenarioOutcome.CANNOT_RUN, scenario.why_not_on_user_cluster)
                continue
            begins(scenario.name)
            result = self._run(scenario, baseline)
            if result.outcome is ScenarioOutcome.NOT_MET:
                result = self._run(scenario, baseline.with_faults_from_the_start())
            if not steady and result.of(Guarantee.COMPLETE) and result.of(Guarantee.ONCE):
                if self._run_baseline(BASELINE_AGAIN)[1].achieved != baseline.achieved:
                    raise CannotVerify(_differs(self.program))
                steady = True
            yield result

    def _run_baseline(self, name: str) -> tuple[Result, Baseline]:
        directory = self.directory / name
        with self._stage(name, directory) as stage:
            ending = stage.play(_just_run(stage))
            stage.quiesce()
            topics, effects, found = achieved(stage, self.by)
            broken = baseline_breaches(stage, effects, found)
        result = Result(name, BASELINE_HAPPENS, ScenarioOutcome.BROKEN if broken else ScenarioOutcome.HELD, "", broken, ending)
        self._clear(directory, result)
        return result, Baseline(self.program.role, stage.observer, topics, frozenset(effects))

    def _run(self, scenario: Scenario, baseline: Baseline) -> Result:
        directory = self.directory / (f"{scenario.name}-from-the-start" if baseline.from_the_start else scenario.name)
        with self._stage(scenario.name, directory, scenario.brokers) as stage:
            ending = stage.play(scenario.script(stage, baseline))
            stage.quiesce()
            broken = breaches(stage, baseline, self.by)
            reason = undetectable_by_client(stage)
        outcome = _outcome(broken, reason, fault_occurred=ending.fault_occurred)
        note = SETTINGS_LOST_IT if any(each.by_setting for each in broken) else reason or ""
        result = Result(scenario.name, scenario.happens, outcome, note, broken, ending)
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
    yield stage.last_input_written()


def _outcome(broken: Sequence[Breach], reason: str | None, *, fault_occurred: bool) -> ScenarioOutcome:
    if reason:
        return ScenarioOutcome.EXPOSED
    if any(not each.by_setting for each in broken):
        return ScenarioOutcome.BROKEN
    if broken:
        return ScenarioOutcome.LOST_BY_SETTING
    return ScenarioOutcome.HELD if fault_occurred else ScenarioOutcome.NOT_MET


def _not_once_text(baseline: Result) -> str:
    breach = baseline.of(Guarantee.ONCE)
    explanation = "" if breach is None else f"{breach.summary}\n{breach.explanation}"
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
