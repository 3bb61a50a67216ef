"""Code that all sample programs share, whatever their client library: the environment variables that `ottla verify` sets, arguments,
SIGTERM and records."""

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
"""The number of records in one transaction."""

Item = TypeVar("Item")
Record = tuple[bytes, bytes]
"""A record to write: (key, value)."""


@dataclass(frozen=True, slots=True)
class Job:
    """A sample program's parameters: topics, group and so on. `instance` names this process; it stays the same after a restart. `work`: the
    directory of the consumer's store. `mistake`: the mistake to make, if any. `result`: only print the stored effects."""

    bootstrap: str
    instance: str
    work: Path
    input: str
    output: str
    group: str
    records: int
    mistake: str | None
    result: bool

    def makes(self, *mistakes: str) -> bool:
        """Return whether the program is to make one of these mistakes."""
        return self.mistake in mistakes


def job_of(role: Role, doc: str | None) -> Job:
    """Return the program's parameters from the environment and the command line; `doc` is the text of --help. Exits with the usage on wrong
    arguments. Raises KeyError if OTTLA_BOOTSTRAP_SERVERS is not set."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mistake", choices=names(role), help="make this mistake")
    if role.endswith("consumer"):
        parser.add_argument("--result", action="store_true", help="print the effects, one a line, and end")
    options = parser.parse_args()
    environment = os.environ
    return Job(
        bootstrap=environment["OTTLA_BOOTSTRAP_SERVERS"],
        instance=environment.get("OTTLA_INSTANCE", "1"),
        work=Path(environment.get("OTTLA_WORK_DIR", ".")),
        input=environment.get("OTTLA_INPUT", "input"),
        output=environment.get("OTTLA_OUTPUT", "output"),
        group=environment.get("OTTLA_GROUP", "samples"),
        records=int(environment.get("OTTLA_RECORDS", "200")),
        mistake=options.mistake,
        result=getattr(options, "result", False),
    )


def records_of(job: Job) -> list[Record]:
    """Return the records that a producer has to write: the same at each start, with unique values, so that it can find those already
    written."""
    return [(b"key-%d" % (number % 10), b"record-%d" % number) for number in range(job.records)]


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split the items into pieces of CHUNK_RECORDS items; the last piece may be shorter."""
    return (items[first : first + CHUNK_RECORDS] for first in range(0, len(items), CHUNK_RECORDS))


def stop_on_signal() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. The program checks it between transactions; a running call is not interrupted."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
