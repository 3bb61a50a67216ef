"""`python -m client_compat.spark_releases.judge ENGINE ROOT CUT FILE`: audits the logs below ROOT, and then those below CUT, whose
partitions are divided into slices for several tasks.

The verdicts are written to FILE as JSON, without what may differ between two runs: the duration and the engine's name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from ottla.spark_jobs import audit_tasks
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import ALL_SAMPLES
from ottla.spark_jobs.verdict import Verdict


def judge(engine: str, root: Path) -> list[Verdict]:
    """Audit all logs below `root` with this engine (duckdb or spark). Return one verdict for all logs of a single broker together, and one
    for each set of replicas."""
    sets = {name: case.directories for name, case in CASES.items() if case.directories}
    single = [each for each in sorted(root.iterdir()) if each.name not in sets]
    verdicts = [audit(single, key_field="row", samples=ALL_SAMPLES, engine=engine, deep=True)]
    for name, directories in sets.items():
        paths = [root / name / each for each in directories]
        verdicts.append(audit(paths, samples=ALL_SAMPLES, engine=engine, replicas=True, deep=True))
    return verdicts


def judge_in_slices(engine: str, root: Path) -> list[Verdict]:
    """Audit all logs below `root` as `judge` does, but divide each partition at its segments: one task reads each segment, and a further
    task checks the whole partition."""
    audit_tasks.UNSPLIT_BYTES_MAX = audit_tasks.TASK_BYTES_MAX = 1  # type: ignore[misc] # real logs of the corpus's size are never cut
    return judge(engine, root)


def main(engine: str, root: str, cut: str, file: str) -> None:
    """Audit the logs below `root`, and with divided partitions those below `cut`, and write the verdicts to `file` as JSON."""
    verdicts = [*judge(engine, Path(root)), *judge_in_slices(engine, Path(cut))]
    Path(file).write_text(json.dumps([asdict(found) for each in verdicts for found in each.directories], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
