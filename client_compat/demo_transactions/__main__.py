"""`make demo-transactions`: the command line of the demo of exactly-once processing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.support.brokers import ottla
from client_compat.support.campaign import Directory, run_campaign
from client_compat.support.demonstration import LOOK_AT, ROWS_FILE, Demonstration, audited
from client_compat.support.program import run
from client_compat.support.progress import progress
from ottla.spark_jobs.session import CannotJudge


def main(
    directory: Directory = Path(".demo-transactions"),
    rows: Annotated[int | None, typer.Option(help="Use only this number of flights, the first ones.")] = None,
) -> None:
    """Count 336,776 flights per carrier and hour in a consume-transform-produce pipeline; compare the output with the correct counts, and
    audit the log. Meanwhile two instances with one transactional id (on aiokafka and on confluent-kafka) fence each other, and the broker
    is SIGKILLed five times. Do this once with transactions and once without."""
    look_again = ("audit {0}/log", "dump-log {0}/log/counts-transactional-0", "serve --data-dir {0}/log", "transactions list")
    run_campaign(partial(_demo, limit=rows), directory, failures=[CannotJudge], look_at=LOOK_AT, look_again=look_again)


def _demo(console: Console, directory: Path, limit: int | None) -> Demonstration:
    """Run the pipeline with and without transactions, and audit the log. Return the outcome: the statements that the demo must prove
    (promises), each with whether it was kept, and tables. `limit`: use only this number of flights."""
    from client_compat.demo.flights import write_rows  # noqa: PLC0415 # client processes import this module too, and do not need it
    from client_compat.demo_transactions import topics  # noqa: PLC0415 # as above
    from client_compat.demo_transactions.instance import INPUT, INPUT_PARTITIONS  # noqa: PLC0415 # as above
    from client_compat.demo_transactions.run import KILLS, Flights, PipelineRun  # noqa: PLC0415 # as above
    from client_compat.demo_transactions.verdict import promises, tables  # noqa: PLC0415 # as above
    from client_compat.support.admin import create_topic  # noqa: PLC0415 # as above

    console.print(f"Two instances, one transactional id: each takes over from the other again and again; {KILLS} SIGKILLs in each run.")
    sent, client_log = directory / ROWS_FILE, directory / "clients.log"
    # The broker's output is beside its directory, not in it: the directory has only Kafka's files.
    with progress(console) as display:
        loading = display.add_task("flights loaded", total=None, note="confluent-kafka, idempotent")
        count = write_rows(sent, limit)
        with ottla(directory / "log", output=directory / "broker.log") as broker:
            create_topic(broker.bootstrap, INPUT, INPUT_PARTITIONS)
            flights = Flights(*topics.load(broker.bootstrap, sent, lambda n: display.update(loading, total=count, completed=n)))
            exact = PipelineRun(broker, flights, client_log, transactional=True, display=display).execute()
            plain = PipelineRun(broker, flights, client_log, transactional=False, display=display).execute()
        verdict = audited(display, [directory / "log"])
    return Demonstration(promises(exact, plain, verdict), tables(exact, plain, verdict))


if __name__ == "__main__":
    run(main)
