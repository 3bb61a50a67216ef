"""The program that the benchmark starts: reads or audits a log, and prints the number of rows and its peak memory.

`python -m client_compat.bench_audit.reader WHAT DIR`. WHAT is one of:
- `headers`: read the batch headers;
- `checked`: read the headers and check the CRCs;
- `opened`: read the headers and all further columns that the audit has for a batch;
- `records`: read the records;
- `audit`: run the audit's checks of batches, but not those of single records, with DuckDB in one process;
- `spark`: run the same checks on Spark with two cores.

The first four use two processes.
"""

from __future__ import annotations

import json
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from ottla.spark_jobs.tables import Filters, Task, arrow_schema, plan, read_task

PROCESSES: Final = 2
HEADERS: Final = [
    "topic", "partition", "file", "position", "size_bytes", "base_offset", "last_offset", "record_count", "max_timestamp", "producer_id",
    "producer_epoch", "base_sequence", "last_sequence", "transactional", "control", "error",
]  # fmt: skip
READS: Final[dict[str, tuple[str, list[str] | None]]] = {
    "headers": ("batches", HEADERS),
    "checked": ("batches", [*HEADERS, "crc_ok"]),
    "opened": ("batches", None),
    "records": ("records", ["topic", "partition", "file", "position", "offset", "timestamp", "key", "value", "producer_id", "sequence"]),
}


def read(what: str, task: Task) -> tuple[int, int]:
    """Read a task's part of the log; return the number of rows, and this process's peak resident memory in KiB. `what` says how much is
    read: `headers`, `checked`, `opened` or `records` (see the module)."""
    level, columns = READS[what]
    rows = sum(batch.num_rows for batch in read_task(level, task, arrow_schema(level, columns), Filters()))
    return rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(what: str, path: str) -> None:
    """Read or audit the log in the directory `path`, and print {"rows": …, "peak_kib": …, "violations": …}. `what` is one of the words that
    the module's docstring lists."""
    if what in {"audit", "spark"}:
        from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # the other contenders do not need it

        engine, master = ("duckdb", None) if what == "audit" else ("spark", f"local[{PROCESSES}]")
        verdict = audit([path], engine=engine, master=master, deep=False).directories[0]
        # With Spark, the memory is that of the JVM and its workers. This process cannot measure their peaks.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if what == "audit" else 0
        print(json.dumps({"rows": verdict.batches, "peak_kib": peak, "violations": sum(r.violations for r in verdict.rules.values())}))
        return
    tasks = plan(READS[what][0], [path])
    with ProcessPoolExecutor(PROCESSES, get_context("fork")) as pool:
        done = list(pool.map(read, [what] * len(tasks), tasks))
    print(json.dumps({"rows": sum(rows for rows, _ in done), "peak_kib": max(peak for _, peak in done), "violations": 0}))


if __name__ == "__main__":
    main(*sys.argv[1:])
