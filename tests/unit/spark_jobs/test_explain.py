from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.records.record import build_batch
from ottla.spark_jobs.corpus import CASES, payments
from ottla.spark_jobs.corpus.writer import PartitionWriter, cleaned, flip, numbered
from ottla.spark_jobs.explain import OffsetNotFound, explain, explain_command, lines
from tests.support.group_calls import find_coordinator
from tests.support.topic_calls import create, produce


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "log"
    payments.plant(path)
    return path


@pytest.mark.parametrize(
    ("place", "visible", "why"),
    [
        ("payments-0@0", True, "its transaction was committed at offset 2"),
        ("payments-1@3", False, "its transaction was aborted at offset 5"),
        ("payments-1@8", False, "its transaction is open: it began at offset 8 and has no marker"),
        ("payments-0@2", False, "it is a marker, which no consumer receives"),
        ("payments-0@17", False, "not yet: producer 1002 has had a transaction open since offset 12, and nothing after it is stable"),
    ],
)
def test_explanation_says_whether_and_why_read_committed_sees_the_record(log: Path, place: str, visible: bool, why: str) -> None:
    assert explain(place, log).visible == (visible, why)


def test_explanation_has_producer_transaction_and_record(log: Path) -> None:
    found = explain("payments-1@9", log)
    assert (found.batch["producer_id"], found.batch["producer_epoch"], found.sequence) == (payments.HANGING, 0, 1)
    assert found.record is not None
    assert json.loads(found.record["value"])["cents"] == 100
    assert found.transaction is not None
    assert (found.transaction.transactional_id, found.transaction.state) == ("hanging", "Ongoing")
    assert (found.last_stable_offset, found.holding_back) == (8, (payments.HANGING, 8))
    explained = dict(lines(found))
    assert explained["writer"] == f"producer {payments.HANGING}, epoch 0, sequence 1"
    assert explained["transaction"].startswith("began in this partition at offset 8, has no marker; its coordinator knows it as 'hanging'")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("payments-0@99", "after its end: the log holds offsets 0 to 19"),
        ("payments-7@0", "has no records of payments-7"),
        ("nobody", "is not TOPIC-PARTITION@OFFSET, such as orders-0@1234"),
    ],
)
def test_missing_record_is_reported_with_the_reason(log: Path, place: str, says: str) -> None:
    with pytest.raises(OffsetNotFound, match=says):
        explain(place, log)


def test_record_below_the_log_start_is_reported_with_the_available_offsets(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0, start=100).data(5)
    with pytest.raises(OffsetNotFound, match="before the log's start: the log holds offsets 100 to 104"):
        explain("t-0@7", tmp_path)


def test_record_removed_by_compaction_is_not_visible(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).batch(cleaned(build_batch(numbered(5)), 0, 3))
    assert explain("t-0@3", tmp_path).visible == (True, "it was written outside of any transaction")
    found = explain("t-0@2", tmp_path)
    assert (found.record, found.visible[0]) == (None, False)
    assert "compaction removes records" in found.visible[1]


@pytest.mark.parametrize("at", [2**63 - 1, 1_700_000_000_000_000_000])
def test_timestamp_outside_the_calendar_is_printed_as_a_number(tmp_path: Path, at: int) -> None:
    PartitionWriter(tmp_path, "t", 0).data(1, at=at)
    assert dict(lines(explain("t-0@0", tmp_path)))["time"] == f"{at} ms, which no calendar has (by the producer)"


def test_valid_checksum_of_a_legacy_message_is_not_called_wrong(tmp_path: Path) -> None:
    CASES["old_formats"].write(tmp_path)
    assert "WRONG" not in dict(lines(explain("t-0@1", tmp_path)))["batch"]
    CASES["flipped_bit"].write(tmp_path / "damaged")
    assert "WRONG" in dict(lines(explain("t-0@5", tmp_path / "damaged")))["batch"]


ATTRIBUTES = 21
"""The position of the attributes in a batch; their second byte has the transactional bit, 0x10."""
LAST_OFFSET_DELTA = 23


def test_a_damaged_batch_begins_no_transaction_that_holds_later_records_back(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=7, seq=0)
    log.data(5, pid=8, seq=0)
    flip(log.file, ATTRIBUTES + 1)
    found = explain("t-0@5", tmp_path)
    assert (found.visible, found.last_stable_offset) == ((True, "it was written outside of any transaction"), 10)
    damaged = explain("t-0@4", tmp_path)
    assert damaged.visible == (False, "its checksum is wrong: a consumer fails on it")
    assert (damaged.transaction, damaged.holding_back) == (None, None)


def test_a_damaged_offset_delta_changes_neither_the_logs_end_nor_the_batch_of_another_offset(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    log.data(5, pid=7, seq=0)
    position = log.file.stat().st_size
    log.data(5, pid=8, seq=0)
    last = log.file.stat().st_size
    log.data(5, pid=9, seq=0)
    flip(log.file, position + LAST_OFFSET_DELTA)  # the batch with the offsets 5 to 9 then seems to have millions
    assert [explain(f"t-0@{offset}", tmp_path).batch["producer_id"] for offset in (4, 9, 10)] == [7, 8, 9]
    flip(log.file, position + LAST_OFFSET_DELTA)
    flip(log.file, last + LAST_OFFSET_DELTA)
    with pytest.raises(OffsetNotFound, match=r"is after its end: the log holds offsets 0 to 9$"):
        explain(f"t-0@{1 << 40}", tmp_path)


def test_explanation_lists_groups_that_committed_past_the_record(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"a", b"b", b"c")
        find_coordinator(client, "passed")
        for group, offset in (("passed", 2), ("behind", 1)):
            parts = [OffsetCommitRequestPartition(0, offset)]
            answer = client.call(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=parts)]), version=8)
            assert answer.topics[0].partitions[0].error_code == 0
    found = explain("t-0@1", tmp_path / "data")
    assert found.groups == {"passed": 2, "behind": 1}
    assert dict(lines(found))["groups"] == "behind has not reached it (1); passed has passed it (2)"
    assert dict(lines(found))["writer"].startswith("no producer id")


def test_explain_command_prints_text_or_json_and_exits_with_2_for_a_missing_record(log: Path) -> None:
    app = Typer()
    app.command()(explain_command)
    text = CliRunner().invoke(app, ["payments-0@0", str(log)])
    assert (text.exit_code, "sees it: its transaction was committed" in text.stdout) == (0, True)
    found = json.loads(CliRunner().invoke(app, ["payments-1@3", str(log), "--json"]).stdout)
    assert (found["read_committed"], found["transaction"]["outcome"]) == (False, "abort")
    absent = CliRunner().invoke(app, ["payments-0@99", str(log)])
    assert (absent.exit_code, "after its end" in absent.stderr) == (2, True)
    topic = CliRunner().invoke(app, ["nosuch-0@1", str(log)])
    assert (topic.exit_code, topic.stderr) == (2, f"error: {log}: no partition of nosuch here\n")
    directory = CliRunner().invoke(app, ["payments-0@1", str(log / "missing")])
    assert (directory.exit_code, directory.stderr) == (2, f"error: {log / 'missing'}: no such directory\n")


def test_record_of_a_cluster_without_internal_topics_is_explained(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker, Client("127.0.0.1", broker.port) as client:
        create(client, "t")
        produce(client, "t", b"a")
        app = Typer()
        app.command()(explain_command)
        over_the_wire = CliRunner().invoke(app, ["t-0@0", f"kafka://{broker.bootstrap}"])
    assert (over_the_wire.exit_code, "sees it: it was written outside" in over_the_wire.stdout) == (0, True), over_the_wire.output
