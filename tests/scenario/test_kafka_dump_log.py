"""Apache Kafka's own log dump tool reads every kind of file that Ottla writes, without complaints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from client_compat.kafka.tools import Tools
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import commit, find_coordinator, stable_member
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce
from tests.support.txn_calls import init


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a stopped broker: sixty records of an idempotent producer in several segments, a committed offset, a group
    member."""
    data = tmp_path_factory.mktemp("dump") / "data"
    with RunningBroker(data) as broker, broker.client() as client:
        create(client, "t", configs={"index.interval.bytes": "200", "segment.bytes": str(1 << 20)})
        for n in range(30):
            produce(client, "t", b"x" * 50_000, b"y", producer_id=7, base_sequence=2 * n)
        find_coordinator(client)
        assert commit(client, 5) == 0
        stable_member(client)
        create(client, "in-txn")
        holder = init(client, "dumped")
        assert holder.add(("in-txn", 0)) == [0]
        assert holder.end(commit=True).error_code == 0
    return data


def dump(tools: Tools, files: Iterable[Path], *options: str) -> str:
    names = sorted(str(path) for path in files)
    assert names
    done = tools.run("kafka-dump-log", "--files", ",".join(names), *options)
    assert done.code == 0, done.err
    gaps = re.findall(r"(-?\d+) is followed by (\d+)", done.out)
    assert [gap for gap in gaps if gap[0] != "-1"] == [], "the tool itself counts what is before a later segment's first record as a gap"
    for complaint in ("isvalid: false", "Found timestamp mismatch", "Mismatches in", "Could not", "out of order"):
        assert complaint not in done.out + done.err, done.out
    return done.out


def test_segments_indexes_and_snapshots_are_dumped_without_complaints(tools: Tools, directory: Path) -> None:
    files = [path for path in (directory / "t-0").iterdir() if path.suffix in {".log", ".index", ".timeindex", ".snapshot"}]
    assert sum(path.suffix == ".log" for path in files) > 1
    output = dump(tools, files, "--deep-iteration")
    assert output.count("sequence: ") == 60
    assert "producerId: 7 producerEpoch: 0" in output
    assert "lastSequence: 59" in output


def test_indexes_agree_with_their_segments_and_are_sane(tools: Tools, directory: Path) -> None:
    indexes = [path for path in (directory / "t-0").iterdir() if path.suffix in {".index", ".timeindex"}]
    output = dump(tools, indexes, "--index-sanity-check")
    assert output.count("passed sanity check.") == len(indexes)
    dump(tools, indexes, "--verify-index-only")


def test_group_transaction_and_metadata_records_are_decoded(tools: Tools, directory: Path) -> None:
    offsets = dump(tools, directory.glob("__consumer_offsets-*/*.log"), "--offsets-decoder")
    assert '"group":"g","topic":"t","partition":0' in offsets
    assert '"protocolType":"consumer"' in offsets
    transactions = dump(tools, directory.glob("__transaction_state-*/*.log"), "--transaction-log-decoder")
    assert "transactional_id=dumped" in transactions or '"transactionalId":"dumped"' in transactions
    metadata = dump(tools, directory.glob("__cluster_metadata-0/*.log"), "--cluster-metadata-decoder")
    assert '"type":"TOPIC_RECORD"' in metadata
    assert '"name":"segment.bytes","value":"1048576"' in metadata
