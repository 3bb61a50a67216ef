"""`make claims`: tries every claim (statement about exactly-once) of docs/exactly-once.md with real clients."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from client_compat.claims.claim import Claim
from client_compat.claims.run import CLAIMS, ClaimResult, run_claims
from client_compat.kafka.cluster import ALL_OTTLA, Kind, kinds_of
from client_compat.support import program
from client_compat.support.campaign import Expectations, run_campaign
from client_compat.support.progress import progress


def main(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="[NUMBER]…", help="Claims to check; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    java: Annotated[bool, typer.Option(help="Use the Java client, too, if Maven can build it.")] = True,
    brokers: Annotated[str, typer.Option(help="The cluster's brokers, for claims about several: kafka or ottla.")] = ",".join(ALL_OTTLA),
    controller: Annotated[Kind, typer.Option(help="The kind of the cluster's controller.")] = Kind.OTTLA,
) -> None:
    """Run claims of articles about exactly-once, and print each claim, the result, the evidence, and whether it held. A wrong claim is
    expected to be refuted."""
    if unknown := set(numbers or ()) - set(CLAIMS):
        raise typer.BadParameter(f"there is no claim {', '.join(map(str, sorted(unknown)))}; they are 1 to {max(CLAIMS)}")
    kinds = kinds_of(brokers)
    chosen = [CLAIMS[number] for number in sorted(numbers or CLAIMS)]

    def play(console: Console, root: Path) -> Expectations:
        results = []
        with progress(Console(stderr=True)) as display:
            bar = display.add_task("Claims", total=len(chosen), note="starting a broker")

            def on_claim(claim: Claim) -> None:
                display.update(bar, note=f"{claim.number}: {claim.text}")

            for result in run_claims(chosen, root, java=java, on_claim=on_claim, kinds=kinds, controller=controller):
                results.append(result)
                display.advance(bar)
            display.update(bar, note="")
        if as_json:
            json.dump([_json(result) for result in results], sys.stdout, indent=2, ensure_ascii=False)
            print()
        else:
            _print(console, results)
        return Expectations(len(results), [str(result.claim.number) for result in results if result.surprise])

    run_campaign(play, console=program.new_console(stderr=as_json))


def _json(result: ClaimResult) -> dict[str, Any]:
    claim = result.claim
    return {
        "claim": claim.number,
        "text": claim.text,
        "expected": claim.expected,
        "got": result.got,
        "happened": result.happened,
        "evidence": result.evidence,
        "seconds": round(result.seconds, 2),
        "surprise": result.surprise,
    }


def _print(console: Console, results: list[ClaimResult]) -> None:
    table = Table(title="What is taught about exactly-once, run", show_lines=True, expand=True)
    table.add_column("", justify="right")
    table.add_column("claim as taught", ratio=3)
    table.add_column("what happened, and the evidence", ratio=6, overflow="fold")
    table.add_column("expected", no_wrap=True)
    table.add_column("got", no_wrap=True)
    for result in results:
        colour = "red" if result.surprise else "dim" if result.got == "skipped" else "green"
        evidence = "".join(f"\n[dim]{escape(line)}[/]" for line in result.evidence)
        got = f"[{colour}]{result.got}[/]"
        table.add_row(str(result.claim.number), result.claim.text, escape(result.happened) + evidence, result.claim.expected, got)
    console.print(table)
    counts = ", ".join(f"{sum(result.got == got for result in results)} {got}" for got in ("held", "refuted", "skipped", "failed"))
    console.print(f"{counts}. docs/exactly-once.md explains each.")


if __name__ == "__main__":
    program.run(main)
