"""Starts Spark for the audit: local by default, quiet, on loopback, sized for a laptop.

Rules that hold here: whatever can be missing (PySpark, Java) is a `CannotJudge` that says what to do. A session that is running already is
used as it is and left running.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SMALL_LOG_BYTES: Final = 512 << 20
"""Below this, start-up is most of the time: the JVM's second compiler would not pay for itself."""
NOISE: Final = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""Java says so whenever Spark's launcher starts it; nothing can be done about it, and nobody need know."""
LOG_CONFIG: Final = Path(__file__).with_name("log4j2.properties")
HEAP_OPTIONS: Final = "-XX:+UseSerialGC -Xms1g -Xmn500m -XX:MetaspaceSize=256m"
"""A heap that need not grow first: full collections at start-up cost a second."""


SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program that it starts: the JVM is there."""


class CannotJudge(Exception):
    """The audit could not run. The message says why and what to do."""


def require_spark() -> None:
    """Raises `CannotJudge` when PySpark or Java is missing."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise CannotJudge("The audit runs on PySpark, which is not installed. Run: pip install 'ottla[spark]'")
    if find_java() is None:
        raise CannotJudge(f"The audit runs on Spark, which needs Java 17 or later, and none was found. Run: {_how_to_get_java()}")


def find_java() -> str | None:
    """The Java that Spark would start: JAVA_HOME's, else the one on PATH; None without."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def _how_to_get_java() -> str:
    if os.environ.get("JAVA_HOME"):
        return f"unset JAVA_HOME (there is no bin/java in {os.environ['JAVA_HOME']}), or set it to where Java is"
    if sys.platform == "darwin":
        return "brew install openjdk@17"
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    managers = {
        "apt-get": "apt-get install -y openjdk-17-jre-headless",
        "dnf": "dnf install -y java-17-openjdk-headless",
        "apk": "apk add openjdk17-jre-headless",
        "pacman": "pacman -S jre17-openjdk-headless",
    }
    for manager, command in managers.items():
        if shutil.which(manager):
            return sudo + command
    return "install a Java 17 runtime and put it on PATH, or set JAVA_HOME"


@contextmanager
def session(log_bytes: int, master: str | None = None) -> Iterator[SparkSession]:
    """The running Spark session, or a new one that ends with the block. `master`: Spark's master URL (None: SPARK_MASTER, else local[*]).

    Raises `CannotJudge` when Spark does not start.
    """
    require_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 # a broker without the spark extra must be able to import this module

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with _context(log_bytes, master) as context:
        spark = SparkSession(context)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def cluster(master: str | None = None) -> Iterator[SparkContext | SparkSession]:
    """What runs tasks: the running SparkContext, or a new one that ends with the block; a session where that is all there is (Spark
    Connect). Otherwise as `session`."""
    require_spark()
    from pyspark.errors import PySparkException  # noqa: PLC0415 # as above
    from pyspark.sql import SparkSession  # noqa: PLC0415 # as above

    running = SparkSession.getActiveSession()
    if running is not None:
        try:
            found: SparkContext | SparkSession = running.sparkContext
        except (PySparkException, AttributeError):
            found = running
        yield found
        return
    with _context(0, master) as context:  # the JVM only moves rows: its second compiler never pays off
        yield context


@contextmanager
def _context(log_bytes: int, master: str | None) -> Iterator[SparkContext]:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 # as above
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 # as above
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 # as above

    conf = SparkConf(loadDefaults=SUBMITTED in os.environ).setAppName("ottla audit")
    if SUBMITTED in os.environ:  # where it runs and with what is spark-submit's to say, the SQL settings ours
        conf.setAll([(name, value) for name, value in settings(log_bytes).items() if name.startswith("spark.sql.")])
        context = SparkContext.getOrCreate(conf)
    else:
        _prepare_environment()
        conf.setMaster(master or os.environ.get("SPARK_MASTER") or "local[*]").setAll(list(settings(log_bytes).items()))
        threading.Thread(target=_import_what_pyspark_will, daemon=True).start()
        try:
            with _filtered_stderr() as stderr:
                gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as e:
            raise CannotJudge(f"Spark did not start with {find_java()} (it needs Java 17 or later): {e}") from e
    try:
        yield context
    finally:
        context.stop()


def _import_what_pyspark_will() -> None:
    """PySpark imports its test helpers, and pandas with them, at the first call to Java: better while the JVM starts than after."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    importlib.import_module("pyspark.testing.utils")


@contextmanager
def _filtered_stderr() -> Iterator[int]:
    """A file descriptor for the standard error of the JVM. All that it writes, as long as it lives, goes to ours, but for one line."""
    reading, writing = os.pipe()

    def forward() -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                if NOISE not in line:
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()

    threading.Thread(target=forward, name="spark-stderr", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def settings(log_bytes: int) -> dict[str, str]:
    """Spark's settings for a log of this size."""
    cores = os.cpu_count() or 1
    java_options = f"-Dlog4j2.configurationFile={LOG_CONFIG.as_uri()} -Djava.net.preferIPv4Stack=true {HEAP_OPTIONS}"
    if log_bytes < SMALL_LOG_BYTES:
        java_options += " -XX:TieredStopAtLevel=1"
    # One query holds all rules: compiling a class for each of its stages takes many times as long as a small log does without.
    codegen = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    return {
        **(codegen if log_bytes < SMALL_LOG_BYTES else {}),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java_options,
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": str(cores if log_bytes < SMALL_LOG_BYTES else 8 * cores),
        "spark.sql.adaptive.enabled": "false" if log_bytes < SMALL_LOG_BYTES else "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }


def _prepare_environment() -> None:
    """Spark's Python workers run this interpreter and see the packages that this process sees, installed or not."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A worker's import of pandas 3 warns on the user's terminal about parts of PySpark that nothing here uses.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:PySpark does not yet fully support pandas:FutureWarning")
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])
