"""The engine that runs the audit's SQL on Spark. It reads logs with the data source `kafka_log` into temporary views, and caches the views
that several queries read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.spark_jobs.engines import SPARK, ArrowFunction, Row
from ottla.spark_jobs.session import CannotJudge, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def spark_engine(log_bytes: int, master: str | None = None) -> Iterator[SparkEngine]:
    """Open an engine on the running Spark session, or on a new session that stops at the end of the `with` block. Raises `CannotJudge` when
    Spark does not start."""
    with session(log_bytes, master) as spark:
        try:
            from ottla.spark_jobs.source import KafkaLogSource  # noqa: PLC0415 # imports PySpark, which is optional
        except ModuleNotFoundError as e:
            raise CannotJudge(
                f"Spark {spark.version} has no data sources in Python, which this needs: Spark 4.0 has. Only the audit runs on 3.5"
            ) from e

        spark.dataSource.register(KafkaLogSource)
        # With null fields in the evidence of findings, too, as DuckDB's to_json writes them.
        spark.conf.set("spark.sql.jsonGenerator.ignoreNullFields", "false")
        engine = SparkEngine(spark)
        try:
            yield engine
        finally:
            engine.forget()


class SparkEngine:
    """Runs the SQL of views and rules on a Spark session; implements `Engine`."""

    name = SPARK

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: list[DataFrame] = []

    def json_path(self, field: str) -> str:
        return field if field.startswith("$") else "$" + "".join(f"['{part}']" for part in field.split("."))

    def read(self, view: str, level: str, paths: Sequence[str], topics: Sequence[str], columns: str, *, keep: bool = True) -> None:
        """Read one level of the logs at `paths` (a kind of row, such as `batches`) as the temporary view `view`, by the data source
        `kafka_log`. See `Engine.read` for the parameters."""
        if not paths:  # the data source rejects an empty list of paths, but here it only means that no directory has this level
            self._show(view, self._spark.createDataFrame([], columns), keep=False)
            return
        reader = self._spark.read.format("kafka_log").option("topic", ",".join(topics)).option("level", level)
        self._show(view, reader.schema(columns).load(list(paths)), keep)

    def table(self, view: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        self._show(view, self._spark.createDataFrame([tuple(row) for row in rows], columns), keep=False)

    def define(self, view: str, query: str, args: Mapping[str, Any], *, keep: bool = True) -> None:
        self._show(view, self._spark.sql(query, args=dict(args)), keep)

    def rows(self, query: str, args: Mapping[str, Any]) -> list[Row]:
        return [row.asDict() for row in self._spark.sql(query, args=dict(args)).collect()]

    def map_in_arrow(self, query: str, function: ArrowFunction, columns: str) -> list[Row]:
        return [row.asDict() for row in self._spark.sql(query).mapInArrow(function, columns).collect()]

    def forget(self) -> None:
        """Remove from Spark's cache all views that `read` and `define` stored there."""
        for frame in self._kept:
            frame.unpersist()

    def _show(self, view: str, frame: DataFrame, keep: bool) -> None:
        if keep:
            self._kept.append(frame.persist())
        frame.createOrReplaceTempView(view)
