"""A Spark session with the Kafka connector, whose jars Maven downloads once."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from client_compat.kafka.jars import CACHE, copy_dependencies

POM = Path(__file__).with_name("pom.xml")


def connector_version() -> str:
    """Return the version of Spark's Kafka connector from the file pom.xml. It may differ from PySpark's, because PyPI gets releases earlier
    than Maven Central."""
    found = re.search(r"<connector\.version>([^<]+)<", POM.read_text())
    assert found is not None, f"{POM} names no version"
    return found[1]


def jars() -> list[str]:
    """Return the paths of the jars of Spark's Kafka connector, which Maven downloads at the first call. Raises `KafkaMissing` if they
    cannot be downloaded."""
    directory = CACHE / f"spark-kafka-{connector_version()}"
    if not directory.is_dir():
        copy_dependencies(POM, [], directory, f"Spark's Kafka connector {connector_version()}", directory.is_dir)
    return [str(path) for path in sorted(directory.glob("*.jar"))]


def session() -> SparkSession:
    """Start Spark in this process, on two threads, with only its log on standard error."""
    settings = {
        "spark.jars": ",".join(jars()),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.appName("ottla-matrix").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
