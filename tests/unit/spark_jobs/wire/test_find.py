from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.testing import InProcessBroker
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.log_directory import POLICY_UNKNOWN
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.wire.find import UNKNOWN_OFFSET, Span, WireSegment, pin, ranges_of
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce
from tests.support.wire_logs import ADDRESS


@given(st.integers(0, 1000), st.integers(0, 10_000), st.integers(0, 1 << 20), st.integers(1, 1 << 20))
def test_ranges_cover_a_partitions_offsets_without_overlap(start: int, offsets: int, size: int, target: int) -> None:
    ranges = list(ranges_of(ADDRESS, Span("t", 0, start, start + offsets, False, size), target))
    assert (ranges[0].fetch_from, ranges[-1].fetch_end) == (start, start + offsets)
    assert all(one.fetch_end == other.fetch_from < other.fetch_end for one, other in itertools.pairwise(ranges))
    assert [one.is_last for one in ranges] == [False] * (len(ranges) - 1) + [True]
    assert len({one.path for one in ranges}) == len(ranges)


def _found(url: str, *topics: str) -> list[WireSegment]:
    logs = find_logs(url, topics)
    assert logs.problems == []
    return [segment for segment in logs.segments if isinstance(segment, WireSegment)]


def test_compacted_topic_may_have_holes_up_to_an_unknown_offset(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        broker.topics.create("plain")
        broker.topics.create("compacted", configs={"cleanup.policy": "compact"})
        cleaned = {segment.topic: segment.cleaned_to for segment in _found(f"kafka://{broker.bootstrap}")}
    assert cleaned == {"plain": 0, "compacted": UNKNOWN_OFFSET}


def test_topic_with_an_unknown_cleanup_policy_counts_as_compacted_and_is_a_problem_of_the_audit(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", faults=["error:api=DescribeConfigs,code=TOPIC_AUTHORIZATION_FAILED"]) as broker:
        broker.topics.create("t")
        assert [segment.cleaned_to for segment in _found(f"kafka://{broker.bootstrap}")] == [UNKNOWN_OFFSET]
        (verdict,) = audit([f"kafka://{broker.bootstrap}"], engine="duckdb").directories
    assert verdict.problems == [f"t: {POLICY_UNKNOWN}"]


def test_missing_topic_is_a_problem_and_the_others_are_found(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        broker.topics.create("there", partitions=2)
        logs = find_logs(f"kafka://{broker.bootstrap}", ["there", "elsewhere", "__transaction_state"])
    assert [(segment.topic, segment.partition) for segment in logs.segments] == [("there", 0), ("there", 1)]
    assert logs.problems == ["elsewhere: UNKNOWN_TOPIC_OR_PARTITION"]


def test_unreachable_broker_is_a_problem(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        server = broker.bootstrap
    (problem,) = find_logs(f"kafka://{server}").problems
    assert problem.startswith(f"kafka://{server}: no broker answers")


def test_tls_listener_is_a_problem_that_names_the_missing_client_settings(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data", tls=True) as broker:
        (plain,) = find_logs(f"kafka://{broker.bootstrap}").problems
        file = tmp_path / "client.properties"
        file.write_text("security.protocol=SSL\n")
        (untrusted,) = find_logs(f"kafka://{broker.bootstrap}?command.config={file}").problems
    with InProcessBroker(tmp_path / "other") as broker:
        (no_tls,) = find_logs(f"kafka://{broker.bootstrap}?command.config={file}").problems
    assert "The listener may require TLS or SASL" in plain
    assert "`ottla --config client.properties" in plain
    assert "ssl.truststore.location" in untrusted
    assert "correct security.protocol" in no_tls


def test_unreadable_client_settings_are_a_problem_that_names_the_file(tmp_path: Path) -> None:
    (problem,) = find_logs(f"kafka://localhost:1?command.config={tmp_path / 'none'}").problems
    assert problem == f"the client security settings {tmp_path / 'none'} cannot be read: No such file or directory"


def test_invalid_url_is_a_problem_under_its_name_without_properties() -> None:
    logs = find_logs("kafka://a:b?client.id=x")
    assert logs.path == "kafka://a:b"
    assert len(logs.problems) == 1


def test_pinned_cluster_is_read_up_to_its_pinned_end(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"one")
        url = pin(f"kafka://{broker.bootstrap}", [], tmp_path / "pin.json")
        produce(client, "t", b"two")
        (segment,) = _found(url, "t")
        assert (segment.fetch_end, segment.log_dir) == (1, f"kafka://{broker.bootstrap}")
        rows = [row for rows in read("records", [url], ["offset", "value"], Filters(frozenset({"t"}))) for row in rows.to_pylist()]
        assert rows == [{"offset": 0, "value": b"one"}]
        assert _found(f"kafka://{broker.bootstrap}", "t")[0].fetch_end == 2


def test_offset_range_is_fetched_with_the_batch_that_contains_its_first_offset(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "t")
        for _ in range(3):
            produce(client, "t", b"a", b"b", b"c")
        filters = Filters(frozenset({"t"}), start_offset=4, end_offset=6)
        rows = [row for rows in read("batches", [f"kafka://{broker.bootstrap}"], None, filters) for row in rows.to_pylist()]
    assert [(row["base_offset"], row["position"]) for row in rows] == [(3, 0)]
    assert rows[0]["file"].endswith("/t-0/00000000000000000000@4")
