from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pyspark

from ottla.spark_jobs.worker_daemon import ARCHIVE, unpacked

JOB = """
import sys

from ottla.spark_jobs.session import cluster

def imported(rows):
    import pyarrow
    pyarrow.array(["a"])  # pyarrow imports pandas here, if it is installed
    import pyspark
    yield sys.modules["__main__"].__spec__.name, "pandas" in sys.modules, pyspark.__file__

with cluster("local[1]") as context:
    print(context.parallelize([0], 1).mapPartitions(imported).collect())
"""


def test_workers_of_the_audits_spark_import_neither_pandas_nor_the_pyspark_archive() -> None:
    done = subprocess.run([sys.executable, "-c", JOB], stdout=subprocess.PIPE, check=True, text=True, timeout=300)
    ((daemon, pandas, package),) = literal_eval(done.stdout)
    assert (daemon, pandas) == ("ottla.spark_jobs.worker_daemon", False)
    assert Path(package).samefile(pyspark.__file__)


def test_the_archive_of_a_spark_without_an_unpacked_pyspark_is_kept(tmp_path: Path) -> None:
    path = [str(tmp_path / ARCHIVE), str(tmp_path / "jars" / "spark-core.jar"), "/usr/lib/python3"]
    assert unpacked(path) == path
