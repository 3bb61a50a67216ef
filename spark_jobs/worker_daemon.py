"""A daemon that forks Spark's Python workers, in place of PySpark's own. The audit uses it when it starts Spark itself, because its workers
start faster.

Invariants:
- pandas cannot be imported in the workers: the audit's tasks never use it, but pyarrow would import it if it is installed.
- The workers run the PySpark of Spark's directory, like other workers.
- Modules that start a thread (pyarrow does) are not imported here: a process with threads must not be forked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

ARCHIVE: Final = "python/lib/pyspark.zip"


class NoPandas:
    """An import hook (`importlib.abc.MetaPathFinder`) that hides pandas: `import pandas` raises ModuleNotFoundError, as if pandas were not
    installed."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the audit's workers do without pandas", name=name)


def unpacked(path: Sequence[str]) -> list[str]:
    """Return the module search path `path` with Spark's directory in place of PySpark's zip archive, and without JARs. If Spark's directory
    is not an installed PySpark package, return `path` unchanged. Archives are slow: their modules are compiled at each start, and Python
    reads their index again for each task."""
    archives = [each for each in path if each.endswith(ARCHIVE) and (Path(each).parents[2] / "__init__.py").is_file()]
    if not archives:
        return [*path]
    packages = [str(Path(each).parents[3]) for each in archives]
    return [each for each in path if each not in archives and not each.endswith(".jar")] + packages


if __name__ == "__main__":
    sys.path[:] = unpacked(sys.path)
    sys.meta_path.insert(0, NoPandas)

    from pyspark.daemon import manager

    for name in ("pyspark.worker", "sqlglot.dialects.duckdb", "sqlglot.dialects.spark"):  # once, instead of in each worker
        import_module(name)

    manager()
