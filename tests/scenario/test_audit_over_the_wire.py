"""Wire mode gives the same findings as file mode on the same data: the corpus as Ottla serves it, and what Apache Kafka wrote under real
clients; over plain connections, TLS, client certificates and each SASL mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus.batches import BATCHES
from ottla.spark_jobs.corpus.groups import GROUPS
from ottla.spark_jobs.corpus.legal import LEGAL
from ottla.spark_jobs.corpus.random_logs import RANDOM_LOGS
from ottla.spark_jobs.corpus.replays import REPLAYS
from ottla.spark_jobs.corpus.score import ALL_SAMPLES, findings
from ottla.spark_jobs.corpus.transactions import TRANSACTIONS
from ottla.spark_jobs.corpus.writer import flip
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.verdict import DirectoryVerdict
from ottla.spark_jobs.wire.sources import Wire
from tests.support import audited_workload
from tests.support.apache_kafka import jars_or_skip
from tests.support.running_broker import RunningBroker
from tests.support.secure_kafka import MECHANISMS, PASSWORD, USER, SecureKafka, secure_kafka
from tests.support.spark import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]
SERVED = {
    name: case
    for family, count in ((BATCHES, 5), (TRANSACTIONS, 4), (GROUPS, 2), (LEGAL, 3), (RANDOM_LOGS, 2), (REPLAYS, 1))
    for name, case in list(family.items())[:count]
}
"""A part of the corpus: serving and judging all of it takes a minute and a half."""


def judge(path: str | Path, topics: list[str], wire: Wire | None = None) -> DirectoryVerdict:
    (verdict,) = audit([path], topics=topics, key_field="row", samples=ALL_SAMPLES, engine="duckdb", deep=True, wire=wire).directories
    # In some of the corpus no record has such a field, which is reported.
    assert [problem for problem in verdict.problems if "no record has the key" not in problem] == []
    return verdict


FILES_ONLY = {"indexes", "producer-snapshots", "log-end", "share-beyond-log"}
"""Rules that need files beside the segments; `share-beyond-log` finds topics by the ids in `partition.metadata`."""


def judged_by_both(files: DirectoryVerdict, wire: DirectoryVerdict) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the findings of the rules that both modes can judge."""
    both = {name for name, result in wire.rules.items() if result.judged and files.rules[name].judged}
    assert {name for name, result in files.rules.items() if result.judged} - both <= FILES_ONLY
    return tuple(sorted(each for each in findings([verdict]) if each[0] in both) for verdict in (files, wire))  # type: ignore[return-value]  # two of them


def topics_of(path: Path) -> list[str]:
    """Return the topics that brokers serve; the metadata log is not a topic."""
    return sorted({segment.topic for segment in find_logs(path).segments} - {"__cluster_metadata"})


@pytest.mark.parametrize("name", SERVED)
def test_audit_over_the_wire_from_ottla_has_the_verdict_of_its_files(name: str, tmp_path: Path) -> None:
    SERVED[name].write(tmp_path / "data")
    with RunningBroker(tmp_path / "data") as broker:
        topics = topics_of(tmp_path / "data")
        in_files, over_the_wire = judged_by_both(judge(tmp_path / "data", topics), judge(f"kafka://{broker.bootstrap}", topics))
    assert over_the_wire == in_files


def test_a_byte_that_changes_on_the_brokers_disk_is_found_over_the_wire(tmp_path: Path) -> None:
    BATCHES["gap"].write(tmp_path / "data")
    with RunningBroker(tmp_path / "data") as broker:
        segment = next(each for each in find_logs(tmp_path / "data").segments if each.topic == "t")
        flip(Path(segment.path), 100)
        in_files, over_the_wire = judged_by_both(judge(tmp_path / "data", ["t"]), judge(f"kafka://{broker.bootstrap}", ["t"]))
    assert ("crc", "violation", "wrong CRC", "t-0@0") in over_the_wire
    assert over_the_wire == in_files


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    jars_or_skip()
    with secure_kafka(tmp_path_factory.mktemp("secure")) as running:
        audited_workload.run(running.reference.bootstrap)
        yield running


@pytest.fixture(scope="module")
def in_files(kafka: SecureKafka) -> DirectoryVerdict:
    """Return file mode's verdict on the running broker's directory, without its metadata log."""
    return judge(kafka.reference.data_dir, topics_of(kafka.reference.data_dir))


def test_audit_over_the_wire_from_kafka_has_the_verdict_of_its_files(kafka: SecureKafka, in_files: DirectoryVerdict) -> None:
    wire = judge(f"kafka://{kafka.reference.bootstrap}", [])
    expected, found = judged_by_both(in_files, wire)
    assert found == expected
    assert found
    assert (wire.topics, wire.partitions, wire.records, wire.producers) == (
        in_files.topics,
        in_files.partitions,
        in_files.records,
        in_files.producers,
    )


@pytest.mark.parametrize("way", ["certificate", *MECHANISMS])
def test_audit_authenticates_with_client_certificate_and_every_sasl_mechanism(
    way: str, kafka: SecureKafka, in_files: DirectoryVerdict, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    ca, _, client = kafka.certificates
    common = f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    if way == "certificate":
        server = kafka.mutual
        config.write_text(f"{common}security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={client}\n")
    else:
        server = kafka.sasl
        config.write_text(
            f"{common}security.protocol=SASL_SSL\nsasl.mechanism={way}\n"
            f'sasl.jaas.config=org.example.LoginModule required username="{USER}" password="{PASSWORD}";\n'
        )
    expected, found = judged_by_both(in_files, judge(f"kafka://{server}", [], Wire(command_config=config)))
    assert found == expected


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_audit_with_a_wrong_password_reports_it_and_judges_nothing(mechanism: str, kafka: SecureKafka, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.ca.location={kafka.certificates.ca}\n"
        f"sasl.mechanism={mechanism}\nsasl.username={USER}\nsasl.password=wrong\n"
    )
    verdict = audit([f"kafka://{kafka.sasl}"], wire=Wire(command_config=config), engine="duckdb")
    assert verdict.exit_code == 2
    assert "rejected the credentials" in verdict.directories[0].problems[0]
    assert "wrong" not in verdict.to_json()


def test_audit_rejects_a_certificate_of_an_unknown_authority(kafka: SecureKafka, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    verdict = audit([f"kafka://{kafka.mutual}"], wire=Wire(command_config=config), engine="duckdb")
    assert verdict.exit_code == 2
    assert "certificate verify failed" in verdict.directories[0].problems[0].lower()


def test_kafka_log_data_source_accepts_bootstrap_servers_and_client_properties(spark: SparkSession, kafka: SecureKafka) -> None:
    from ottla.spark_jobs.source import KafkaLogSource

    spark.dataSource.register(KafkaLogSource)
    reader = spark.read.format("kafka_log").option("bootstrap.servers", kafka.sasl).option("security.protocol", "SASL_SSL")
    reader = reader.option("ssl.ca.location", str(kafka.certificates.ca)).option("sasl.mechanism", "PLAIN")
    frame = reader.option("sasl.username", USER).option("sasl.password", PASSWORD).option("topic", "payments").load()
    in_file = spark.read.format("kafka_log").option("topic", "payments").load(str(kafka.reference.data_dir))
    columns = ["topic", "partition", "position", "base_offset", "producer_id", "producer_epoch", "base_sequence", "crc"]
    rows = sorted(frame.select(*columns).collect())
    assert rows == sorted(in_file.select(*columns).collect())
    assert rows
