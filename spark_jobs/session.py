"""Starts Spark for the audit: local by default, without log noise, on the loopback interface, sized for a laptop.

Invariants:
- A missing dependency (PySpark, Java) raises `CannotJudge` with an instruction.
- A running session is used unchanged and is not stopped.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark_jobs.class_archive import archive_options

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SMALL_LOG_BYTES: Final = 512 << 20
"""The log size, in bytes, below which the JVM's C2 compiler is disabled: for small logs most of the time is start-up, and C2's
optimisations would not pay off."""
NOISE: Final = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""A warning that Java prints at every start by Spark's launcher. It cannot be switched off and is irrelevant, so it is filtered out."""
DAEMON: Final = "ottla.spark_jobs.worker_daemon"
LOG_CONFIG: Final = Path(__file__).with_name("log4j2.properties")
HEAP_OPTIONS: Final = "-XX:+UseSerialGC -Xms1g -Xmn500m -XX:MetaspaceSize=256m"
"""JVM options for a heap that has its final size at the start: full garbage collections while it grows would cost a second."""


LOCAL: Final = re.compile(r"local(\[(?P<cores>\d+|\*)(, *\d+)?\])?")
LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[ *(?P<workers>\d+) *, *(?P<cores>\d+) *, *\d+ *\]")
"""Matches the master URL of a local Spark cluster, in the form that Spark accepts (SparkMasterRegex)."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""An environment variable that spark-submit sets for the program that it starts. If it is set, a JVM is already running."""


class CannotJudge(Exception):
    """The audit could not run. The message gives the reason and an instruction."""


def require_spark() -> None:
    """Raise `CannotJudge` if PySpark or Java is missing."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise CannotJudge("The audit runs on PySpark, which is not installed. Run: pip install 'ottla[spark]'")
    if find_java() is None:
        raise CannotJudge(f"The audit runs on Spark, which needs Java 17 or later, and none was found. Run: {_how_to_get_java()}")


def find_java() -> str | None:
    """Return the Java that Spark would start: that of JAVA_HOME, or else the one on PATH; None if there is none."""
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


def cores_of(master: str | None = None) -> int | None:
    """Return the number of cores of a local Spark master (`local[…]`, `local-cluster[…]`). Return None for other masters, which report the
    number only to running applications. `master`: the master URL (None: that in SPARK_MASTER, or else `local[*]`)."""
    url = _master(master)
    found = LOCAL.fullmatch(url)
    if found is not None:
        return (os.cpu_count() or 1) if found["cores"] == "*" else int(found["cores"] or 1)
    workers = LOCAL_CLUSTER.fullmatch(url)
    return None if workers is None else int(workers["workers"]) * int(workers["cores"])


def _master(master: str | None) -> str:
    return master or os.environ.get("SPARK_MASTER") or "local[*]"


@contextmanager
def session(log_bytes: int, master: str | None = None) -> Iterator[SparkSession]:
    """Yield the running Spark session, or start one that is stopped at the end of the `with` block. `log_bytes`: the logs' size, which
    determines Spark's settings. `master`: Spark's master URL (None: that in SPARK_MASTER, or else `local[*]`).

    Raises `CannotJudge` when Spark does not start.
    """
    require_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 # installations without the spark extra must be able to import this module

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
    """Yield the running SparkContext, or start one that is stopped at the end of the `with` block. With Spark Connect, which has no
    SparkContext, yield the running session. `master`: Spark's master URL (None: that in SPARK_MASTER, or else `local[*]`). Raises
    CannotJudge when Spark does not start."""
    require_spark()
    from pyspark.errors import PySparkException  # noqa: PLC0415 # PySpark is optional
    from pyspark.sql import SparkSession  # noqa: PLC0415 # PySpark is optional

    running = SparkSession.getActiveSession()
    if running is not None:
        try:
            found: SparkContext | SparkSession = running.sparkContext
        except (PySparkException, AttributeError):
            found = running
        yield found
        return
    # On other masters, this package may become available to the executors' Python only after its start.
    more = {"spark.python.daemon.module": DAEMON} if LOCAL.fullmatch(_master(master)) else {}
    # 0: the JVM only moves rows, so its C2 compiler never pays off
    with _context(0, master, more, "ottla.spark_jobs.engines.distributed") as context:
        yield context


@contextmanager
def _context(log_bytes: int, master: str | None, more: Mapping[str, str] | None = None, *imported: str) -> Iterator[SparkContext]:
    """Start a SparkContext that is stopped at the end of the `with` block. `more`: further Spark settings. `imported`: the names of modules
    to import while the JVM starts. Raises CannotJudge when Spark does not start."""
    from pyspark import SparkConf, SparkContext, __version__  # noqa: PLC0415 # PySpark is optional
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 # PySpark is optional
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 # PySpark is optional
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 # PySpark is optional

    conf = SparkConf(loadDefaults=SUBMITTED in os.environ).setAppName("ottla audit")
    # spark-submit's user decides where Spark runs and with which resources; the audit sets only its SQL settings
    if SUBMITTED in os.environ:
        conf.setAll([(name, value) for name, value in settings(log_bytes).items() if name.startswith("spark.sql.")])
        context = SparkContext.getOrCreate(conf)
    else:
        _prepare_environment()
        chosen = {**settings(log_bytes), **(more or {})}
        chosen["spark.driver.extraJavaOptions"] += " " + archive_options(find_java() or "", Path(_find_spark_home()))
        conf.setMaster(_master(master)).setAll(list(chosen.items()))
        if not __version__.startswith("3."):  # PySpark 3.5 does not need this import, which fails there and can block the start
            imported += ("pyspark.testing.utils",)
        threading.Thread(target=_import, args=imported, daemon=True).start()
        try:
            with _filtered_stderr() as stderr:
                # stdout, too: the JVM's warnings do not belong into the audit's output
                # PySpark uses its first JVM until this process ends, so a further one would only take memory
                gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": stderr, "stderr": stderr})  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as e:
            raise CannotJudge(f"Spark did not start with {find_java()} (it needs Java 17 or later): {e}") from e
    try:
        yield context
    finally:
        accumulators = getattr(context, "_accumulatorServer", None)
        context._accumulatorServer = None  # type: ignore[assignment]  # as SparkContext.stop does
        context.stop()
        if accumulators is not None:  # SparkContext.stop would wait for this server, which looks up once a second
            threading.Thread(target=accumulators.shutdown, daemon=True).start()


def _import(*names: str) -> None:
    """Import the modules `names`; missing ones are ignored. This runs in a thread while the JVM starts, to save time. Among them is
    PySpark's module of test helpers, because PySpark 4 would otherwise import it, together with pandas, at its first call to Java."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    for name in names:
        with suppress(ImportError):  # an optional package may be missing
            importlib.import_module(name)


@contextmanager
def _filtered_stderr() -> Iterator[int]:
    """Yield a file descriptor to be the JVM's standard error. Its output is copied to this process's standard error, without the line
    NOISE, until the JVM exits."""
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
    """Return the Spark settings (memory, cores, compiler and others) for an audit of logs of `log_bytes` bytes."""
    cores = os.cpu_count() or 1
    java_options = f"-Dlog4j2.configurationFile={LOG_CONFIG.as_uri()} -Djava.net.preferIPv4Stack=true {HEAP_OPTIONS}"
    compiler = " -XX:TieredStopAtLevel=1" if log_bytes < SMALL_LOG_BYTES else ""
    # One query contains all rules. Compiling a class for each of its stages takes several times as long as interpreting them over a small
    # log.
    codegen = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    return {
        **(codegen if log_bytes < SMALL_LOG_BYTES else {}),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java_options + compiler,
        # for a cluster's executors; a user's spark.executor.extraJavaOptions comes after these
        "spark.executor.defaultJavaOptions": f"-XX:+UseSerialGC{compiler}",
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
    """Make Spark's Python workers use this interpreter, and see the packages that this process sees, even if they are not installed."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Otherwise a worker's import of pandas 3 prints a warning about PySpark features that the audit does not use.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:PySpark does not yet fully support pandas:FutureWarning")
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, known)])
