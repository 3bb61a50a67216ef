from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer import Typer
from typer.testing import CliRunner

from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.spark_jobs.corpus import CASES, payments
from ottla.spark_jobs.dedup import TopicCount, dedup, dedup_command
from ottla.spark_jobs.session import CannotJudge
from tests.support.topic_calls import create, produce


def written(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three orders, of which an application without a producer id sent one twice; and two equal ones of one idempotent producer."""
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
    """Append the last batch once more, at the next offset, as a broker that forgets its producers would."""
    file = log / f"{topic}-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    length = 12 + int.from_bytes(data[8:12], "big")
    count = int.from_bytes(data[57:61], "big")
    first = data[:length]
    first[:8] = (int.from_bytes(data[-length + 0 : -length + 8], "big") + count).to_bytes(8, "big")
    file.write_bytes(data + first)


def test_only_committed_records_are_written_and_all_are_counted(tmp_path: Path) -> None:
    payments.plant(tmp_path / "log")
    counts = dedup([tmp_path / "log"], tmp_path / "out")
    assert counts == [TopicCount("payments", read=22, written=12, aborted=6, open=4, duplicate=0)]
    rows = written(tmp_path / "out")
    assert [(row["partition"], row["offset"]) for row in rows] == sorted((row["partition"], row["offset"]) for row in rows)
    assert len(rows) == 12
    assert payments.HANGING not in {row["producer_id"] for row in rows}


def test_a_key_that_no_record_has_is_refused_because_every_duplicate_would_be_kept(log: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match=r"no record has the key --key-field order\.id"):
        dedup([log], tmp_path / "out", key_field="order.id")
    assert not (tmp_path / "out").exists()


def test_spark_writes_the_same(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    assert dedup([log], tmp_path / "spark", key_field="id", engine="spark") == dedup([log], tmp_path / "duckdb", key_field="id")
    places = [sorted((row["topic"], row["partition"], row["offset"]) for row in written(tmp_path / name)) for name in ("spark", "duckdb")]
    assert places[0] == places[1]


def test_a_sequence_that_stands_twice_is_written_once(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"a", producer_id=9, base_sequence=0)
    double(tmp_path / "data", "t")
    assert dedup([tmp_path / "data"], tmp_path / "out") == [TopicCount("t", read=2, written=1, duplicate=1)]
    assert [(row["offset"], row["value"], row["sequence"]) for row in written(tmp_path / "out")] == [(0, b"a", 0)]


def test_what_the_application_sent_twice_needs_its_business_key(log: Path, tmp_path: Path) -> None:
    by_sequence = dedup([log], tmp_path / "by-sequence")
    assert [(count.topic, count.duplicate) for count in by_sequence] == [("idempotent", 0), ("orders", 0)]
    by_key = dedup([log], tmp_path / "by-key", key_field="id")
    assert [(count.topic, count.read, count.written, count.duplicate) for count in by_key] == [("idempotent", 3, 2, 1), ("orders", 4, 3, 1)]
    kept = [json.loads(row["value"])["id"] for row in written(tmp_path / "by-key") if row["topic"] == "orders"]
    assert sorted(kept) == [1, 2, 3]
    assert b"no json" in {row["value"] for row in written(tmp_path / "by-key")}


def test_topics_can_be_chosen(log: Path, tmp_path: Path) -> None:
    assert [count.topic for count in dedup([log], tmp_path / "out", topics=["orders"])] == ["orders"]


def test_a_directory_that_is_there_is_not_touched(log: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="already exists: name a new directory"):
        dedup([log], tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="no such directory"):
        dedup([tmp_path / "absent"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_prints_the_counts(log: Path, tmp_path: Path) -> None:
    app = Typer()
    app.command()(dedup_command)
    table = CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "a"), "--key-field", "id"])
    assert (table.exit_code, "orders" in table.stdout) == (0, True)
    counts = json.loads(CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "b"), "--json"]).stdout)
    assert counts[1] == {"topic": "orders", "read": 4, "written": 4, "aborted": 0, "open": 0, "duplicate": 0, "unreadable": 0}
    assert CliRunner().invoke(app, [str(log), "--to", str(tmp_path / "a")]).exit_code == 2


def test_what_cannot_be_read_is_counted_and_the_exit_code_says_so(tmp_path: Path) -> None:
    for name in ("flipped_bit", "damaged_length", "old_formats"):
        CASES[name].write(tmp_path / name)
    app = Typer()
    app.command()(dedup_command)
    for name, read, unreadable in (("flipped_bit", 10, 1), ("damaged_length", 10, 1), ("old_formats", 5, 3)):
        done = CliRunner().invoke(app, [str(tmp_path / name), "--to", str(tmp_path / "out" / name), "--json"])
        assert (done.exit_code, "cannot be read and are not in" in done.stderr) == (2, True)
        (count,) = json.loads(done.stdout)
        assert (count["read"], count["written"], count["unreadable"]) == (read, read, unreadable)


def test_a_partition_that_cannot_be_opened_is_not_left_out_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES["key_twice"].write(tmp_path / "log")
    monkeypatch.setattr("os.access", lambda path, mode: "t-1" not in str(path))
    with pytest.raises(FileNotFoundError, match="not readable; t-1 is not judged"):
        dedup([tmp_path / "log"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
