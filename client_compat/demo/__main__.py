"""`make demo`: the demo's command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.support.campaign import Directory, run_campaign
from client_compat.support.demonstration import LOOK_AT, ROWS_FILE, Demonstration, audited
from client_compat.support.program import run
from client_compat.support.progress import progress
from ottla.spark_jobs.session import CannotJudge


def main(
    directory: Directory = Path(".demo"),
    rows: Annotated[int | None, typer.Option(help="Use only this number of flights, the first ones.")] = None,
) -> None:
    """Load 336,776 flights at once through aiokafka, confluent-kafka and kafka-python, a third each, into a broker that loses
    acknowledgements and is SIGKILLed midway. Read all flights back through a consumer group, compare them with what was sent, and audit the
    log. Do this once with idempotence and once without."""
    look_again = ("audit {0}/idempotent {0}/plain --key-field row", "dump-log {0}/plain/flights-0", "serve --data-dir {0}/plain")
    run_campaign(partial(_demo, limit=rows), directory, failures=[CannotJudge], look_at=LOOK_AT, look_again=look_again)


def _demo(console: Console, directory: Path, limit: int | None) -> Demonstration:
    """Run the demo with and without idempotence, and audit both logs. Return the outcome: the statements that the demo must prove
    (promises), each with whether it was kept, and tables. `limit`: send only this number of flights."""
    from client_compat.demo.flights import write_rows  # noqa: PLC0415 # the client processes import this module again and need none of it
    from client_compat.demo.run import LOST_ACK_SHARE, TOPIC, Run  # noqa: PLC0415 # as above
    from client_compat.demo.verdict import BUSINESS_KEY, promises, tables  # noqa: PLC0415 # as above

    console.print(
        f"Acknowledgements of {LOST_ACK_SHARE:.0%} of the Produce requests are lost, and the broker is SIGKILLed once in each run."
    )
    sent = directory / ROWS_FILE
    with progress(console) as display:
        writing = display.add_task("flights as JSON", total=None, note="")
        count = write_rows(sent, limit)
        display.update(writing, total=count, completed=count, note="a third for each client")
        with_it = Run(directory / "idempotent", sent, count, idempotent=True, display=display).execute()
        without = Run(directory / "plain", sent, count, idempotent=False, display=display).execute()
        absorbed = [with_it.retries_absorbed, without.retries_absorbed]
        paths = [with_it.directory, without.directory]
        verdict = audited(display, paths, topics=[TOPIC], key_field=BUSINESS_KEY, retries_absorbed=absorbed)
    return Demonstration(promises(with_it, without, verdict), tables(with_it, without, verdict))


if __name__ == "__main__":
    run(main)
