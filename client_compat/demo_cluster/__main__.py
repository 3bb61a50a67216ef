"""`make demo-cluster`: kills leaders of a cluster under load, and shows which acknowledged records are kept and which are lost."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from confluent_kafka import KafkaException
from rich.console import Console

from client_compat.matrix.truth import TruthFailed
from client_compat.support import program
from client_compat.support.campaign import Directory, run_campaign
from client_compat.support.demonstration import Demonstration
from ottla.spark_jobs.session import CannotJudge

if TYPE_CHECKING:
    from client_compat.demo_cluster.judgement import Judged

PAGE = "cluster.html"


def main(
    directory: Directory = Path(".demo-cluster"),
    short: Annotated[bool, typer.Option("--short", help="Kill only one leader in the first act, and wait less between the steps.")] = False,
) -> None:
    """Kill leaders of three Ottla brokers under load, without Java; the brokers and Ottla's controller are processes. With acks=all and
    idempotence nothing is lost or duplicated; with acks=1, and with an unclean election, records are lost, and the demo finds each of them.
    Shows a live view on a terminal or plain lines elsewhere, and writes a page (cluster.html) with the timeline."""
    look_again = ("audit --replicas {0}/safe/broker-*", "audit --replicas {0}/unclean/broker-*")
    look_at = f"{PAGE} has the timeline, and each broker a directory and a log. Look again:"
    failures = (KafkaException, TruthFailed, CannotJudge)
    run_campaign(partial(_demo, short=short), directory, failures=failures, look_at=look_at, look_again=look_again)


def _demo(console: Console, directory: Path, *, short: bool) -> Demonstration:
    """Run all acts (the experiments of the demo) and write the HTML page. Return the outcome: the statements that the demo must prove, each
    with whether it was kept. `short`: kill fewer leaders and wait less."""
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
    (directory / PAGE).write_text(page.render(judged, found), encoding="utf-8")
    return Demonstration(found)


if __name__ == "__main__":
    program.run(main)
