"""`make demo-cluster`: kills leaders under load, as a command."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from client_compat.support import program
from client_compat.support.command import ottla_command
from client_compat.support.demonstration import told
from client_compat.support.program import new_console, or_exit, replace

if TYPE_CHECKING:
    from client_compat.demo_cluster.judgement import Judged

PAGE = "cluster.html"
MARKER = "demo-cluster"


def main(
    directory: Annotated[Path, typer.Option("--dir", help="Where everything goes and stays; an earlier demo's is replaced.")] = Path(
        ".demo-cluster"
    ),
    short: Annotated[bool, typer.Option("--short", help="One leader killed in the first act, and less time between.")] = False,
) -> None:
    """Run three Ottla brokers under Ottla's controller, each as a process, without Java. Leaders are killed under load: with acks=all and
    idempotence nothing is lost or duplicated; with acks=1, and with an unclean election, records are lost, and each is found. Shows a live
    view on a terminal or plain lines, and writes a page (cluster.html) with the timeline. Exit code 0: everything was as promised; 1:
    something was not, or could not be run."""
    console = new_console()
    began = time.perf_counter()
    replace(console, directory, MARKER)
    (directory / MARKER).touch()
    with or_exit(console, "The demo could not be run", *_failures()):
        kept = _demo(console, directory.absolute(), short=short)
    console.print(f"The timeline: {directory / PAGE}. The brokers' directories, logs and words stay beside it. Look again:", soft_wrap=True)
    for words in ("audit --replicas {0}/safe/broker-*", "audit --replicas {0}/unclean/broker-*"):
        console.print(f"  {ottla_command()} {words.format(directory)}", soft_wrap=True)
    console.print(f"[bold]{'As promised' if kept else 'NOT as promised'}[/], in {time.perf_counter() - began:.0f} s.")
    raise typer.Exit(0 if kept else 1)


def _failures() -> tuple[type[Exception], ...]:
    from confluent_kafka import KafkaException  # noqa: PLC0415 # client processes import this module too, and do not need it

    from client_compat.matrix.truth import TruthFailed  # noqa: PLC0415 # as above
    from ottla.spark_jobs.session import CannotJudge  # noqa: PLC0415 # as above

    return KafkaException, TruthFailed, CannotJudge


def _demo(console: Console, directory: Path, *, short: bool) -> bool:
    """Run all acts, print the verdict and write the page; return whether everything was as promised."""
    from client_compat.demo_cluster import page  # noqa: PLC0415 # client processes import this module too, and do not need it
    from client_compat.demo_cluster.acts import ACTS, FULL, SHORT, play  # noqa: PLC0415 # as above
    from client_compat.demo_cluster.judgement import judge, promises  # noqa: PLC0415 # as above
    from client_compat.demo_cluster.live import View  # noqa: PLC0415 # as above

    view = View(console)
    judged: list[Judged] = []
    with view.shown():
        for act in ACTS:
            view.begin(act)
            played = play(act, directory / act.key, SHORT if short else FULL, view.on_sample, view.on_event)
            judged.append(judge(played))
            view.end(judged[-1])
    found = promises(*judged)
    kept = told(console, found)
    (directory / PAGE).write_text(page.render(judged, found), encoding="utf-8")
    return kept


if __name__ == "__main__":
    program.run(main)
