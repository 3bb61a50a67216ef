"""`python -m ottla.spark_jobs.corpus`: runs the audit over the corpus (small logs with known findings) and prints the score. With `DIR` as
its argument, it only writes the logs there."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import details, judge, table, write


def main() -> int:
    """Judge the corpus and print the score, or write the corpus to a directory. Return the exit code: 0 if the audit found all planted
    anomalies without false alarms, or if the corpus was written; otherwise 1."""
    parser = argparse.ArgumentParser(prog="python -m ottla.spark_jobs.corpus", description="The audit on logs whose truth is known.")
    parser.add_argument("directory", type=Path, nargs="?", help="write the logs here, each in a directory of its name, and stop")
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    options = parser.parse_args()
    if options.directory is not None:
        write(CASES, options.directory)
        for name, case in CASES.items():
            print(f"{options.directory / name}")
            for rule, severity, kind, where in case.expected:
                print(f"    {where}  {severity} of {rule}: {kind}")
        return 0
    with tempfile.TemporaryDirectory() as root:
        write(CASES, Path(root))
        score = judge(CASES, Path(root), options.engine)
    Console().print(table(score))
    for line in details(score):
        print(line)
    return 0 if score.perfect else 1


if __name__ == "__main__":
    sys.exit(main())
