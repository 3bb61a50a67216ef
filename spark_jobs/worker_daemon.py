"""Spark's daemon, which forks the Python workers, for the audit's own Spark: its workers start faster.

Invariants:
- pandas cannot be imported in the workers. pyarrow imports it if it is installed, and the audit's tasks never use it.
- Modules that start a thread (pyarrow does) are not imported here: a process with threads must not be forked.
"""

from __future__ import annotations

import sys
from importlib import import_module


class NoPandas:
    """An import hook (`importlib.abc.MetaPathFinder`) for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the audit's workers do without pandas", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPandas)

    from pyspark.daemon import manager

    for name in ("pyspark.worker", "sqlglot.dialects.duckdb", "sqlglot.dialects.spark"):  # once, instead of in each worker
        import_module(name)

    manager()
