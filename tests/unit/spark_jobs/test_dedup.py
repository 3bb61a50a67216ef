from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer import Typer
from typer.testing import CliRunner

from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.spark_jobs.corpus import CASES, payments
from ottla.spark_jobs.dedup import TopicCount, dedup, dedup_command
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import TableFormat
from ottla.spark_jobs.wire.sources import Wire
from tests.support.kafka_logs import PartitionWriter
from tests.support.tables import read_back
from tests.support.topic_calls import create, produce


def written(path: Path, table: str = "records") -> list[dict[str, Any]]:
    return read_back(TableFormat.PARQUET, path, table)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with two topics: three orders, of which a producer without a producer id sent one twice, and two equal records of an idempotent
    one."""
    path = tmp_path_factory.mktemp("dedup") / "data"
    with InProcessBroker(path) as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "orders", 2)
        for number, partition in ((1, 0), (2, 0), (1, 0), (3, 1)):
            produce(client, "orders", b'{"id": %d}' % number, partition=partition)
        create(client, "idempotent")
        produce(client, "idempotent", b'{"id": 7}', producer_id=9, base_sequence=0)
        produce(client, "idempotent", b'{"id": 7}', b"no json", producer_id=9, base_sequence=1)
    return path


def double(log: Path, topic: str) -> None:
    """Append the first batch once more, at the next offset, as a broker that has lost its producer state would."""
    file = log / f"{topic}-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    length = 12 + int.from_bytes(data[8:12], "big")
    count = int.from_bytes(data[57:61], "big")
    first = data[:length]
    first[:8] = (int.from_bytes(data[-length + 0 : -length + 8], "big") + count).to_bytes(8, "big")
    file.write_bytes(data + first)


def test_dedup_writes_only_committed_records_and_counts_all(tmp_path: Path) -> None:
    payments.plant(tmp_path / "log")
    counts = dedup([tmp_path / "log"], tmp_path / "out")
    assert counts == [TopicCount("payments", read=22, written=6, aborted=6, open=10, duplicate=0, added=6)]
    assert len(written(tmp_path / "out")) == 6
    assert payments.HANGING not in {row["producer_id"] for row in written(tmp_path / "out")}


def test_dedup_writes_tables_of_producers_and_transactions(tmp_path: Path) -> None:
    payments.plant(tmp_path / "log")
    dedup([tmp_path / "log"], tmp_path / "out")
    producers = written(tmp_path / "out", "producers")
    transactions = written(tmp_path / "out", "transactions")
    assert sum(row["records"] for row in producers) == 22
    assert {row["outcome"] for row in transactions} == {"commit", "abort", None}
    assert payments.HANGING in {row["producer_id"] for row in transactions if row["outcome"] is None}
    assert {row["topic"] for row in transactions} == {"payments"}


def test_business_key_that_no_record_has_is_rejected(log: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match=r"no record has the key --key-field order\.id"):
        dedup([log], tmp_path / "out", key_field="order.id")
    assert not (tmp_path / "out").exists()


def test_spark_and_duckdb_write_the_same_deduplicated_records(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    assert dedup([log], tmp_path / "spark", key_field="id", engine="spark") == dedup([log], tmp_path / "duckdb", key_field="id")
    places = [
        sorted((row["topic"], row["partition"], row["offset"]) for row in written(tmp_path / name, "unique_records"))
        for name in ("spark", "duckdb")
    ]
    assert places[0] == places[1]


def test_record_stored_twice_under_one_sequence_is_written_once(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"a", producer_id=9, base_sequence=0)
    double(tmp_path / "data", "t")
    assert dedup([tmp_path / "data"], tmp_path / "out") == [TopicCount("t", read=2, written=1, duplicate=1, added=1)]
    assert [(row["offset"], row["value"], row["sequence"]) for row in written(tmp_path / "out")] == [(0, b"a", 0)]


def test_batch_stored_twice_is_written_once_even_with_unordered_timestamps(tmp_path: Path) -> None:
    CASES["resent_with_old_times"].write(tmp_path / "data")
    assert dedup([tmp_path / "data"], tmp_path / "out") == [TopicCount("t", read=20, written=15, duplicate=5, added=15)]
    assert [row["offset"] for row in written(tmp_path / "out")] == [*range(10), *range(15, 20)]


def test_records_sent_twice_by_the_application_are_deduplicated_only_by_business_key(log: Path, tmp_path: Path) -> None:
    by_sequence = dedup([log], tmp_path / "by-sequence")
    assert [(count.topic, count.duplicate) for count in by_sequence] == [("idempotent", 0), ("orders", 0)]
    by_key = dedup([log], tmp_path / "by-key", key_field="id")
    assert [(count.topic, count.read, count.written, count.duplicate) for count in by_key] == [("idempotent", 3, 2, 1), ("orders", 4, 3, 1)]
    kept = [json.loads(row["value"])["id"] for row in written(tmp_path / "by-key", "unique_records") if row["topic"] == "orders"]
    assert sorted(kept) == [1, 2, 3]
    assert b"no json" in {row["value"] for row in written(tmp_path / "by-key", "unique_records")}


def test_dedup_can_be_limited_to_topics(log: Path, tmp_path: Path) -> None:
    assert [count.topic for count in dedup([log], tmp_path / "out", topics=["orders"])] == ["orders"]


def test_output_directory_with_other_files_and_a_missing_log_are_rejected(log: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "records").mkdir(parents=True)
    (tmp_path / "out" / "records" / "mine.parquet").touch()
    for table_format in TableFormat:
        (tmp_path / "out" / "records" / "data").mkdir(exist_ok=True)
        (tmp_path / "out" / "records" / "data" / "mine.parquet").touch()
        with pytest.raises(CannotJudge, match="holds other files: name a new directory"):
            dedup([log], tmp_path / "out", table_format=table_format)
    with pytest.raises(FileNotFoundError, match="no such directory"):
        dedup([tmp_path / "absent"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_plain_url_and_two_replicas_of_a_partition_are_rejected(log: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="Add --format delta"):
        dedup([log], "s3://bucket/tables")
    with pytest.raises(CannotJudge, match="give it as a string"):
        dedup([log], Path("s3://bucket/tables"))
    shutil.copytree(log, tmp_path / "replica")
    with pytest.raises(CannotJudge, match="is in more than one directory"):
        dedup([log, tmp_path / "replica"], tmp_path / "out")


@pytest.mark.parametrize("table_format", TableFormat)
def test_a_growing_log_is_added_once_and_open_transactions_wait(tmp_path: Path, table_format: TableFormat) -> None:
    log = PartitionWriter(tmp_path / "log", "t", 0)
    out = tmp_path / "out"

    def run() -> tuple[int, list[int]]:
        (count,) = dedup([tmp_path / "log"], out, table_format=table_format)
        return count.added, sorted(row["offset"] for row in read_back(table_format, out, "records"))

    log.data(2, pid=1, seq=0)
    assert run() == (2, [0, 1])
    assert run() == (0, [0, 1])
    log.data(1, pid=2, seq=0, transactional=True)
    log.data(1, pid=1, seq=2)
    assert run() == (0, [0, 1])
    log.marker(2)
    assert run() == (2, [0, 1, 2, 3])
    log.data(1, pid=1, seq=2)
    assert run() == (0, [0, 1, 2, 3])
    log.data(1, pid=1, seq=3)
    assert run() == (1, [0, 1, 2, 3, 6])
    outcomes = [row["outcome"] for row in read_back(table_format, out, "transactions")]
    assert outcomes == ["commit"]


@pytest.mark.parametrize("table_format", TableFormat)
def test_tables_by_business_key_are_replaced_by_topic(log: Path, tmp_path: Path, table_format: TableFormat) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        dedup([log], out, table_format=table_format, key_field="id", topics=["orders"])
        dedup([log], out, table_format=table_format, key_field="id", topics=["idempotent"])
    rows = read_back(table_format, out, "unique_records")
    assert Counter(row["topic"] for row in rows) == {"orders": 3, "idempotent": 2}


def test_a_log_that_ends_before_the_table_is_refused(tmp_path: Path) -> None:
    PartitionWriter(tmp_path / "long", "t", 0).data(5, pid=1, seq=0)
    PartitionWriter(tmp_path / "short", "t", 0).data(2, pid=1, seq=0)
    dedup([tmp_path / "long"], tmp_path / "out")
    with pytest.raises(CannotJudge, match="t-0: the table has its records up to offset 4, but the log ends at 1"):
        dedup([tmp_path / "short"], tmp_path / "out")


def test_dedup_command_prints_the_counts(log: Path, tmp_path: Path) -> None:
    app = Typer()
    app.command()(dedup_command)
    table = CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "a"), "--key-field", "id"])
    assert (table.exit_code, "orders" in table.stdout) == (0, True)
    counts = json.loads(CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "b"), "--json"]).stdout)
    zero = dict.fromkeys(("aborted", "open", "duplicate", "unreadable", "deleted"), 0)
    assert counts[1] == {"topic": "orders", "read": 4, "written": 4, "added": 4, **zero}
    again = CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "b"), "--json"])
    assert [count["added"] for count in json.loads(again.stdout)] == [0, 0]
    assert CliRunner().invoke(app, [str(log / "absent"), "--to", str(tmp_path / "a")]).exit_code == 2


def test_dedup_over_the_wire_needs_no_cleanup_policy_but_all_records(tmp_path: Path) -> None:
    hidden = "error:api=DescribeConfigs,code=TOPIC_AUTHORIZATION_FAILED"
    with InProcessBroker(tmp_path / "data", faults=[hidden]) as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"one")
        url = f"kafka://{broker.bootstrap}"
        assert dedup([url], tmp_path / "out", engine="duckdb")[0].written == 1
        broker.faults.add("error:api=Fetch,code=TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(FileNotFoundError, match="t-0: cannot be fetched at offset 0: TOPIC_AUTHORIZATION_FAILED"):
            dedup([url], tmp_path / "spooled", engine="duckdb", wire=Wire(spool=tmp_path / "spool"))


def test_records_deleted_between_two_runs_are_counted_and_change_the_exit_code(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path / "log", "t", 0)
    log.data(10)
    command = [str(tmp_path / "log"), "--to", str(tmp_path / "out"), "--json"]
    app = Typer()
    app.command()(dedup_command)
    assert CliRunner().invoke(app, command).exit_code == 0
    log.data(5)
    log.roll()
    log.data(5)
    (log.directory / f"{0:020d}.log").unlink()
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, json.loads(result.stdout)[0]["deleted"]) == (2, 5)
    assert "5 offsets were deleted after the last run" in result.stderr
    assert CliRunner().invoke(app, command).exit_code == 0
    assert sorted(row["offset"] for row in written(tmp_path / "out")) == [*range(10), *range(15, 20)]


def test_unreadable_records_are_counted_and_change_the_exit_code(tmp_path: Path) -> None:
    for name in ("flipped_bit", "damaged_length", "old_formats"):
        CASES[name].write(tmp_path / name)
    app = Typer()
    app.command()(dedup_command)
    for name, read, unreadable in (("flipped_bit", 10, 1), ("damaged_length", 10, 1), ("old_formats", 5, 3)):
        done = CliRunner().invoke(app, [str(tmp_path / name), "--to", str(tmp_path / "out" / name), "--json"])
        assert (done.exit_code, "cannot be read and are not in" in done.stderr) == (2, True)
        (count,) = json.loads(done.stdout)
        assert (count["read"], count["written"], count["unreadable"]) == (read, read, unreadable)


def test_unreadable_partition_raises_instead_of_being_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES["key_twice"].write(tmp_path / "log")
    monkeypatch.setattr("os.access", lambda path, mode: "t-1" not in str(path))
    with pytest.raises(FileNotFoundError, match="not readable; t-1 is not judged"):
        dedup([tmp_path / "log"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
