"""`ottla dump-log`: shows the contents of the files of a log directory, of Ottla or Apache Kafka.

Exit codes: 0, all files could be read; 1, some bytes are damaged (each place is named with its position); 2, a path is not a log file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.broker.cli.common import CliError, command, note, print_table, say
from ottla.broker.cli.dump_files import Corruption, Options, Row, reader_of

ROWS_AT_ONCE = 1_000
EXIT_DAMAGED = 1
EXIT_NOT_A_LOG = 2


@command
def dump_log(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR…", help="Files of a log directory, or directories to search for them.")],
    *,
    records: Annotated[bool, typer.Option("--records", "-r", help="Show records (decoded in internal topics) instead of batches.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, with the name of its file.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="SUFFIX", help="Only files with this suffix (log, index, …); may be repeated.")
    ] = None,
) -> None:
    """Show segments, indexes, producer snapshots and checkpoint files, and report damaged bytes with their position.

    For example: ottla dump-log data/orders-0 --records
    """
    damaged = 0
    for path in _files(paths, tuple(only or ())):
        damaged += _dump(path, Options(records=records), as_json=as_json)
    if damaged:
        note(f"{damaged} damaged place{'' if damaged == 1 else 's'}")
        raise typer.Exit(EXIT_DAMAGED)


def _files(paths: list[Path], only: tuple[str, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = [file for file in sorted(path.rglob("*")) if file.is_file() and reader_of(file)]
            if not found:
                raise CliError(f"{path} contains no file of a log directory", EXIT_NOT_A_LOG)
            yield from (file for file in found if not only or file.name.endswith(only))
        elif not path.exists():
            raise CliError(f"{path} does not exist", EXIT_NOT_A_LOG)
        elif not path.is_file():
            raise CliError(f"{path} is neither a regular file nor a directory", EXIT_NOT_A_LOG)
        elif reader_of(path) is None:
            message = f"{path} is not named like a file of a log directory (20 digits and .log, .index, …, or a checkpoint)"
            raise CliError(message, EXIT_NOT_A_LOG)
        else:
            yield path


def _dump(path: Path, options: Options, *, as_json: bool) -> int:
    """Print the contents of one file; return the number of damaged places in it. `path` must be a file that `reader_of` recognises."""
    found = reader_of(path)
    assert found is not None, "only readable files are listed"
    kind, read = found
    if not as_json:
        say(f"{path}  {kind}, {path.stat().st_size} bytes")
    damaged = 0
    rows = read(path, options)
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        good = [row for row in chunk if not isinstance(row, Corruption)]
        bad = [row for row in chunk if isinstance(row, Corruption)]
        damaged += len(bad)
        if as_json:
            for row in chunk:
                document = {"damage": row.reason, "position": row.position} if isinstance(row, Corruption) else row
                say(json.dumps({"file": str(path), "kind": kind, **document}, ensure_ascii=False))
        else:
            _print(good)
        for damage in bad:
            note(f"DAMAGED {path} at byte {damage.position}: {damage.reason}")
    return damaged


def _print(rows: list[Row]) -> None:
    """Print consecutive rows with the same columns as one table; data and control records, for instance, have different columns."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end].keys() != rows[start].keys():
            part = rows[start:end]
            print_table(list(part[0]), [[_cell(value) for value in row.values()] for row in part])
            start = end


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
