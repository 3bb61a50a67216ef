"""Records the tables of Apache Kafka's releases from real brokers and writes `broker/releases/tables`: `make releases`.

make releases                    # record all releases, the newest first; a release whose jars cannot be fetched keeps its table
make releases ARGS="4.5.0"       # record one version
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.release_record import VERSIONS, record
from client_compat.support import program
from client_compat.support.brokers import BrokerFailed
from ottla.broker.releases.table import ReleaseTable, releases, to_files
from ottla.protocol.errors import ProtocolError

ROOT: Final = Path(__file__).resolve().parents[2]
TABLES: Final = ROOT / "broker" / "releases" / "tables"


def write(tables: dict[str, ReleaseTable], directory: Path = TABLES) -> None:
    """Write each release's table to a file in `directory`. `tables`: by release."""
    for release, text in to_files(tables).items():
        (directory / f"{release}.json").write_text(text)


def main(versions: Annotated[list[str] | None, typer.Argument(help="Versions of Apache Kafka; by default all.")] = None) -> None:
    """Record what releases of Apache Kafka offer, from their brokers. Exit code 1 if one could not be recorded."""
    tables, failed = dict(releases()), False
    with TemporaryDirectory(prefix="releases-") as directory:
        for version in versions or VERSIONS:
            print(f"Apache Kafka {version}", file=sys.stderr)
            try:
                recorded = record(version, Path(directory))
            except (KafkaMissing, BrokerFailed, OSError, ProtocolError) as error:
                print(f"not recorded: {error}", file=sys.stderr)
                failed = True
                continue
            release = ".".join(version.split(".")[:2])
            tables[release] = ReleaseTable(release, **asdict(recorded))
            write(tables)
    raise typer.Exit(failed)


if __name__ == "__main__":
    program.run(main)
