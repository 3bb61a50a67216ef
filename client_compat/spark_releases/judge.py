"""`python -m client_compat.spark_releases.judge ENGINE ROOT FILE`: judges the logs below ROOT and writes the verdicts to FILE as JSON,
without what may differ between two runs: the seconds and the engine's name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import EVERY


def judge(engine: str, root: Path) -> str:
    """Return the verdicts on all logs below `root`: single directories together, the corpus's replicas set by set."""
    sets = {name: case.directories for name, case in CASES.items() if case.directories}
    single = [each for each in sorted(root.iterdir()) if each.name not in sets]
    verdicts = [audit(single, key_field="row", samples=EVERY, engine=engine, deep=True)]
    for name, directories in sets.items():
        paths = [root / name / each for each in directories]
        verdicts.append(audit(paths, samples=EVERY, engine=engine, replicas=True, deep=True))
    return json.dumps([asdict(directory) for verdict in verdicts for directory in verdict.directories], indent=1)


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(judge(sys.argv[1], Path(sys.argv[2])), encoding="utf-8")
