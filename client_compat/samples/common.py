"""What all samples share and no client is needed for: the environment that `ottla verify` sets, the arguments, SIGTERM, the records."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from client_compat.samples.mistakes import Role, names

CHUNK_RECORDS: Final = 20
"""Records in one transaction."""

Item = TypeVar("Item")
Record = tuple[bytes, bytes]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the program is told. `instance` is the same after a restart, and another for a second member beside it."""

    bootstrap: str
    instance: str
    work: Path
    input: str
    output: str
    records: int
    mistake: str | None
    result: bool

    def makes(self, *mistakes: str) -> bool:
        """Whether one of these wrong habits was asked for."""
        return self.mistake in mistakes


def job_of(role: Role, doc: str | None) -> Job:
    """The job by the environment and the arguments. Exits with the usage on wrong arguments, KeyError without OTTLA_BOOTSTRAP_SERVERS."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mistake", choices=names(role), help="make this mistake")
    if role == "consumer":
        parser.add_argument("--result", action="store_true", help="print the effects, one a line, and end")
    options = parser.parse_args()
    told = os.environ
    return Job(
        bootstrap=told["OTTLA_BOOTSTRAP_SERVERS"],
        instance=told.get("OTTLA_INSTANCE", "1"),
        work=Path(told.get("OTTLA_WORK_DIR", ".")),
        input=told.get("OTTLA_INPUT", "input"),
        output=told.get("OTTLA_OUTPUT", "output"),
        records=int(told.get("OTTLA_RECORDS", "200")),
        mistake=options.mistake,
        result=getattr(options, "result", False),
    )


def records_of(job: Job) -> list[Record]:
    """What a producer has to write: the same at each start, and one value each, by which it finds again what it has written."""
    return [(b"key-%d" % (number % 10), b"record-%d" % number) for number in range(job.records)]


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Pieces of CHUNK_RECORDS, the last one maybe shorter."""
    return (items[first : first + CHUNK_RECORDS] for first in range(0, len(items), CHUNK_RECORDS))


def stop_on_signal() -> threading.Event:
    """Set when SIGTERM or SIGINT came. To be asked between two transactions: it interrupts nothing."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
