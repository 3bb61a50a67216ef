from __future__ import annotations

import subprocess
import sys

JOB = """
import sys

from ottla.spark_jobs.session import cluster

def imported(rows):
    import pyarrow
    pyarrow.array(["a"])  # pyarrow imports pandas here, if it is installed
    yield sys.modules["__main__"].__spec__.name, "pandas" in sys.modules

with cluster("local[1]") as context:
    print(context.parallelize([0], 1).mapPartitions(imported).collect())
"""


def test_workers_of_the_audits_own_spark_do_without_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", JOB], stdout=subprocess.PIPE, check=True, text=True, timeout=300)
    assert done.stdout == "[('ottla.spark_jobs.worker_daemon', False)]\n"
