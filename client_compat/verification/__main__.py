"""`make verify-samples`: runs `ottla verify` on the sample programs and prints a table of the results. Correct programs run all scenarios;
programs with a mistake run those that must expose the mistake.

With `--bootstrap` they run on an existing cluster. Scenarios that cannot run there need not expose a mistake.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from client_compat.kafka.jars import KafkaMissing
from client_compat.samples.mistakes import MISTAKES, Mistake, Role
from client_compat.samples.programs import CLIENTS, JAVA, command_of
from client_compat.support import program
from client_compat.support.campaign import Expectations, run_campaign

CALM = "calm"
LIMIT_S = 900
RUN_S = 45
BROKEN, CANNOT_RUN = "broken", "cannot run"


class SampleClient(StrEnum):
    """The client library of the sample programs."""

    AIOKAFKA = "aiokafka"
    CONFLUENT = "confluent-kafka"
    KAFKA_PYTHON = "kafka-python"
    JAVA = JAVA


@dataclass(slots=True)
class Sample:
    """One sample program, correct (`mistake` is None) or with one mistake, and the results of its verification."""

    client: str
    role: Role
    mistake: Mistake | None
    bootstrap: str | None = None
    only: Sequence[str] = ()
    """Names of the scenarios to run with a correct program; all if empty."""
    scenarios: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    @property
    def command(self) -> list[str]:
        """The command line that starts the sample program with its mistake, if it has one. Raises KafkaMissing if Java's program lacks
        Kafka's jars or a JDK."""
        return [*command_of(self.client, self.role), *(("--mistake", self.mistake.name) if self.mistake else ())]

    @property
    def name(self) -> str:
        return f"{self.client} {self.role}, {self.mistake.name if self.mistake else 'right'}"

    @property
    def sign(self) -> str:
        return "✓" if self.as_expected else "✗"

    @property
    def expected(self) -> str:
        """What `ottla verify` should report about the program, as text: that it keeps all guarantees, or which one it breaks in which
        scenarios."""
        return "holds" if self.mistake is None else f"breaks '{self.mistake.breaks}' in {' and '.join(self.proofs)}"

    @property
    def proofs(self) -> Sequence[str]:
        """The scenarios to run. For a mistake: the scenarios that must expose it. For a correct program: `only` (empty: all scenarios)."""
        return self.only if self.mistake is None else (self.mistake.scenario, *self.mistake.also)

    @property
    def found(self) -> str:
        """What `ottla verify` has reported, as text: an error, the broken guarantees with their scenarios, or how many scenarios had each
        result."""
        broken = [each for each in self.scenarios if each["standing"] == BROKEN]
        if self.error:
            return self.error
        if broken:
            return "breaks " + ", ".join(
                f"{' and '.join(repr(breach['guarantee']) for breach in each['breaches'])} in {each['name']}" for each in broken
            )
        standings = ("held", "exposed", "lost by a setting", "not met", CANNOT_RUN)
        count = {standing: sum(each["standing"] == standing for each in self.scenarios) for standing in standings}
        return ", ".join(f"{number} {standing}" for standing, number in count.items() if number)

    @property
    def as_expected(self) -> bool:
        """Whether a correct program broke no guarantee, or a mistake broke its guarantee in every scenario of `proofs` that could run."""
        if self.error:
            return False
        if self.mistake is None:
            return all(each["standing"] != BROKEN for each in self.scenarios)
        needed = set(self.proofs) - {each["name"] for each in self.scenarios if each["standing"] == CANNOT_RUN}
        shown = {each["name"] for each in self.scenarios for breach in each["breaches"] if breach["guarantee"] == self.mistake.breaks}
        return shown.issuperset(needed)

    @property
    def evidence(self) -> str:
        """A line of the report that proves the mistake, preferably one with an offset. Empty for a correct program, and if nothing proves
        the mistake."""
        if self.mistake is None:
            return ""
        for each in self.scenarios:
            for breach in each["breaches"]:
                if each["name"] == self.mistake.scenario and breach["guarantee"] == self.mistake.breaks:
                    lines = [str(line).strip() for line in breach["explanation"] if ": " in line or "@" in line]
                    return next((line for line in lines if "@" in line), str(breach["says"]))
        return ""

    def run_verify(self) -> None:
        """Run `ottla verify` on the sample program, with the scenarios `proofs` (empty: all), and store its results in `scenarios`. Without
        a verdict, `error` is the reason, such as missing jars of Kafka. Raises subprocess.TimeoutExpired after LIMIT_S seconds."""
        try:
            command = self.command
        except KafkaMissing as missing:
            self.error = str(missing)
            return
        options = ["--role", self.role, "--timeout", str(RUN_S), "--json"]
        if self.role.endswith("consumer"):
            options += ["--result", shlex.join([*command, "--result"])]
        if self.bootstrap is not None:
            options += ["--bootstrap", self.bootstrap]
        for name in self.proofs:
            options += ["--scenario", "lost-ack" if name == CALM else name]
        verify = [sys.executable, "-m", "ottla", "verify", *options, "--", *command]
        done = subprocess.run(verify, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        try:
            verdict = json.loads(done.stdout)
            self.scenarios, self.error = verdict["scenarios"], verdict["could_not_judge"] or ""
        except ValueError:
            self.error = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"


def samples(clients: Sequence[str], *, right: bool, wrong: bool, bootstrap: str | None = None) -> Iterator[Sample]:
    """Yield the sample programs of these client libraries, not yet verified: the correct ones if `right`, those with a mistake if `wrong`.
    `bootstrap`: the cluster to run them on; None: each run starts its own brokers."""
    for client in clients:
        for role in CLIENTS[client]:
            if right:
                yield Sample(client, role, None, bootstrap)
            for mistake in MISTAKES if wrong else ():
                if mistake.role == role:
                    yield Sample(client, role, mistake, bootstrap)


def main(
    client: Annotated[list[SampleClient] | None, typer.Option(help="Verify only this client's programs; may be repeated.")] = None,
    right: Annotated[bool, typer.Option(help="Verify the correct programs.")] = True,
    wrong: Annotated[bool, typer.Option(help="Verify the programs with a mistake.")] = True,
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Verify on this cluster, through a gateway.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all results to this file.")] = None,
) -> None:
    """Run `ottla verify` on every sample program: a correct program must keep every guarantee, and a program with a mistake must break the
    guarantee that its mistake concerns."""
    chosen = list(samples([each.value for each in client or SampleClient], right=right, wrong=wrong, bootstrap=bootstrap))

    def play(console: Console, _root: Path) -> Expectations:
        progress = Console(stderr=True, highlight=False)
        for number, sample in enumerate(chosen, 1):
            with progress.status(f"{number} of {len(chosen)}: {sample.name}"):
                sample.run_verify()
            progress.print(f"{sample.sign} {sample.name}: {sample.found}", markup=False, soft_wrap=True)
        table = Table(title="ottla verify on the sample programs", show_lines=True, expand=True)
        for title, ratio in (("program", 2), ("expected", 2), ("the verification says", 3), ("evidence", 5), ("", None)):
            table.add_column(title, ratio=ratio, overflow="fold")
        for sample in chosen:
            table.add_row(*map(escape, (sample.name, sample.expected, sample.found, sample.evidence)), sample.sign)
        console.print(table)
        if as_json is not None:
            results = [
                {"client": each.client, "role": each.role, "expected": each.expected, "scenarios": each.scenarios} for each in chosen
            ]
            as_json.write_text(json.dumps(results, indent=2))
        return Expectations(len(chosen), [sample.name for sample in chosen if not sample.as_expected])

    run_campaign(play, console=program.new_console(highlight=False))


if __name__ == "__main__":
    program.run(main)
