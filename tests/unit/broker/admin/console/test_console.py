"""The console's JSON, for a broker with real clients. Each test has its own topics and ids."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.admin.console import producers
from ottla.broker.admin.console.avro_schema import AvroSchema, SchemaRefused
from ottla.broker.admin.console.cluster import events
from ottla.broker.admin.console.page import parts
from ottla.broker.admin.console.rendering import render
from ottla.broker.cluster.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.cluster.record_frames import encode_record
from ottla.broker.core.clock import MovableClock
from ottla.broker.groups.embedded_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.broker.testing import InProcessBroker
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from tests.support.console import TOKEN, Console, running_console, served
from tests.support.consumer_calls import join as consumer_join
from tests.support.group_calls import commit, find_coordinator, join, sync
from tests.support.topic_calls import produce
from tests.support.transactions import fetch, produce_as
from tests.support.txn_calls import init

PAGE_BYTES_MAX = 200 << 10
ID = bytes(range(16))


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with running_console() as found:
        yield found


def batch(*values: bytes, producer_id: int = -1, epoch: int = 0, sequence: int = 0, **more: Any) -> bytes:
    """Make a batch whose records have the fixed timestamp 1,000: with the current time, each transaction marker would roll a new
    segment."""
    records = [SimpleRecord(b"k", value, 1_000) for value in values]
    idempotent = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence} if producer_id >= 0 else {}
    return build_batch(records, **idempotent, **more)


def fates(page: Any) -> list[str]:
    return [row["control"] or row["fate"] for row in page["records"]]


def test_broker_without_the_console_imports_none_of_its_modules() -> None:
    code = "import sys, ottla.broker.app, ottla.broker.admin.server; print([m for m in sys.modules if 'console' in m and 'ottla' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_console_page_is_small_and_its_policy_forbids_loading_from_elsewhere(console: Console) -> None:
    assert sum(len(content) for _, content in parts().values()) < PAGE_BYTES_MAX
    for path, (media_type, content) in parts().items():
        status, headers, body = console.answer("GET", path)
        assert (status, headers["content-type"], body) == (200, media_type, content)
        policy = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
        assert b"innerHTML" not in body
        assert b"https://" not in body


def test_page_files_need_no_token_and_console_queries_do(console: Console) -> None:
    elsewhere = {"Host": "broker.example:9644"}
    for path in parts():
        assert console.answer("GET", path, headers=elsewhere)[0] == 200
        assert console.answer("POST", path, headers=elsewhere)[0] == 401
    described = json.loads(console.answer("GET", "/openapi.json")[2])["paths"]
    asked = [path for path in described if path.startswith("/console/")]
    assert len(asked) >= 4
    for path in asked:
        assert list(described[path]) == ["get"] or path == "/console/schemas", "what the console adds only reads"
        assert console.answer("GET", path, headers=elsewhere)[0] == 401, path
    assert console.answer("GET", "/console/broker", headers={**elsewhere, "Authorization": f"Bearer {TOKEN}"})[0] == 200
    assert console.answer("GET", "/console/../health", headers=elsewhere)[0] == 401


def test_topic_query_returns_sizes_settings_and_partition_states(console: Console) -> None:
    console.broker.topics.create("sizes", 2, {"retention.ms": "1000"})
    with console.client() as client:
        produce(client, "sizes", b"one", b"two", partition=1)
    (row,) = console.read("topics", contains="sizes")["topics"]
    assert (row["partitions"], row["here"], row["offsets"], row["leaderless"], row["out_of_sync"]) == (2, 2, 2, 0, 0)
    topic = console.read("topic", name="sizes")
    assert topic["settings"] == {"retention.ms": "1000"}
    node = console.read("broker")["node_id"]
    assert [(each["index"], each["leader"], each["in_sync"], each["log"]["end"]) for each in topic["partitions"]] == [
        (0, node, [node], 0),
        (1, node, [node], 2),
    ]
    assert row["size_bytes"] == topic["partitions"][1]["log"]["size_bytes"] > 0
    assert console.answer("GET", "/console/topic?name=nowhere")[0] == 404


def test_record_query_returns_the_producer_and_the_transactions_outcome(console: Console) -> None:
    console.broker.topics.create("fates")
    with console.client() as client:
        produce_as(client, None, batch(b"plain"), topic="fates")
        produce_as(client, None, batch(b"idempotent", producer_id=77, epoch=3, sequence=5, codec=Codec.GZIP), topic="fates")
        for commit in (True, False, None):
            holder = init(client, f"fates-{commit}")
            assert holder.add(("fates", 0)) == [0]
            writer = {"producer_id": holder.producer_id, "epoch": holder.epoch, "transactional": True}
            assert produce_as(client, holder.transactional_id, batch(b"a", b"b", **writer), topic="fates", version=11).error_code == 0
            if commit is not None:
                assert holder.end(commit=commit).error_code == 0
    page = console.read("records", topic="fates", partition=0, offset=0)
    assert fates(page) == ["none", "none", "committed", "committed", "commit", "aborted", "aborted", "abort", "open", "open"]
    assert page["last_stable"] == 8 < page["high_watermark"] == page["next_offset"] == 10
    idempotent = page["records"][1]
    assert [idempotent[name] for name in ("producer_id", "producer_epoch", "sequence", "codec", "offset")] == [77, 3, 5, "gzip", 1]
    assert [row["transactional_id"] for row in page["records"][5:9]] == ["fates-False", "fates-False", "fates-False", "fates-None"]
    assert [row["sequence"] for row in page["records"][8:]] == [0, 1]
    assert fates(console.read("records", topic="fates", partition=0, offset=6, limit=2)) == ["aborted", "abort"]


def test_page_of_records_ends_at_the_limit_and_the_next_continues(console: Console) -> None:
    console.broker.topics.create("pages")
    with console.client() as client:
        produce(client, "pages", *(b"%d" % number for number in range(7)))
        produce(client, "pages", *(b"%d" % number for number in range(7, 9)))
    found, offset = [], 0
    while offset < 9:
        page = console.read("records", topic="pages", partition=0, offset=offset, limit=4)
        assert len(page["records"]) <= 4
        found += [row["value"]["text"] for row in page["records"]]
        offset = page["next_offset"]
    assert found == [str(number) for number in range(9)]
    assert [row["offset"] for row in console.read("records", topic="pages", partition=0, offset=-3)["records"]] == [6, 7, 8]
    assert console.read("records", topic="pages", partition=0, offset=99)["records"] == []
    for wrong in ("limit=0", "limit=201", "value_bytes=300000", "partition=-1"):
        assert console.answer("GET", f"/console/records?topic=pages&partition=0&{wrong}")[0] == 422, wrong
    assert console.answer("GET", "/console/records?topic=pages&partition=5")[0] == 404


def test_long_value_is_cut_unless_requested_whole(console: Console) -> None:
    console.broker.topics.create("long")
    with console.client() as client:
        produce(client, "long", b"x" * 5_000)
    (cut,) = console.read("records", topic="long", partition=0)["records"]
    assert (len(cut["value"]["text"]), cut["value"]["size"], cut["value"]["cut"]) == (1024, 5_000, True)
    (whole,) = console.read("records", topic="long", partition=0, value_bytes=100_000)["records"]
    assert (whole["value"]["text"], whole["value"]["cut"]) == ("x" * 5_000, False)


def test_records_are_decoded_by_a_schema_that_was_given_for_them(console: Console) -> None:
    fastavro = pytest.importorskip("fastavro", reason="the extra schemas is not installed: run `make setup`")
    console.broker.topics.create("avro")
    fields = [{"name": "id", "type": "long"}, {"name": "raw", "type": ["null", "bytes"]}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": 2**60, "raw": b"\xff"})
    plain = written.getvalue()
    with console.client() as client:
        produce(client, "avro", plain, b"\0\0\0\0\7" + plain, plain[:-1], plain + b"\0", b"words")
    given = {"avro": json.dumps(schema)}
    assert console.answer("PUT", "/console/schemas?topic=avro", given)[0] == 401
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert console.answer("PUT", "/console/schemas?topic=avro", given, token)[0] == 204
    assert console.read("schemas") == [{"topic": "avro", "part": "value", "kind": "Avro", "text": given["avro"]}]
    said = '{"id": 1152921504606846976, "raw": "ff"}'
    found = [row["value"] for row in console.read("records", topic="avro", partition=0, offset=0)["records"]]
    assert [(each["form"], each["text"]) for each in found[:2]] == [("avro", said)] * 2
    assert [each["form"] for each in found[2:]] == ["hex", "hex", "text"]
    (cut, *_) = console.read("records", topic="avro", partition=0, offset=0, value_bytes=5)["records"]
    assert (cut["value"]["text"], cut["value"]["cut"]) == (said[:5], True)
    assert console.answer("DELETE", "/console/schemas?topic=avro", None, token)[0] == 204
    assert console.answer("DELETE", "/console/schemas?topic=avro", None, token)[0] == 404
    assert console.read("records", topic="avro", partition=0, offset=0)["records"][0]["value"]["form"] == "hex"


def doubling(times: int) -> str:
    """Return an Avro schema of nested records, each of which contains the one before it twice; a record has no bytes, but 2^times
    fields."""
    inner: object = {"type": "record", "name": "R0", "fields": []}
    for number in range(1, times):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{number - 1}"}]
        inner = {"type": "record", "name": f"R{number}", "fields": fields}
    return json.dumps(inner)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "no Avro schema"),
        ('"nothing"', "no Avro schema"),
        ('{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}', "Node contains itself"),
        (
            '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": {"type": "array", "items": "Node"}}]}',
            "itself",
        ),
        ('{"type": "array", "items": "null"}', "take no bytes"),
        ('{"type": "array", "items": {"type": "null"}}', "take no bytes"),
        ('{"type": "array", "items": {"type": "record", "name": "N", "fields": [{"name": "a", "type": "null"}]}}', "take no bytes"),
        ('[{"type": "fixed", "name": "F", "size": 0}, {"type": "map", "values": {"type": "array", "items": "F"}}]', "take no bytes"),
        ("[" * 60_000, "no Avro schema"),
        (doubling(40), "take no bytes"),
    ],
    ids=["half", "unknown", "recursive", "in a list", "nulls", "a null type", "records of nothing", "fixed of nothing", "deep", "doubling"],
)
def test_schema_that_allows_unbounded_decoding_work_is_rejected(schema: str, why: str) -> None:
    pytest.importorskip("fastavro", reason="the extra schemas is not installed: run `make setup`")
    with pytest.raises(SchemaRefused, match=why):
        AvroSchema.of(schema)


def test_records_in_protobuf_are_decoded_by_the_message_that_was_named(console: Console) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="the extra schemas is not installed: run `make setup`")
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Order").field.add(name="order_id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    token = {"Authorization": f"Bearer {TOKEN}"}

    def give(message: str, descriptors: bytes = files.SerializeToString()) -> int:
        protobuf = {"message": message, "descriptors": b64encode(descriptors).decode()}
        return console.answer("PUT", "/console/schemas?topic=proto", {"protobuf": protobuf}, token)[0]

    console.broker.topics.create("proto")
    with console.client() as client:
        order = b"\x08\x96\x01"
        produce(client, "proto", order, b"\0\0\0\0\7\0" + order, b"\0\0\0\0\7\2\0" + order, b"\x08", b"\0\0\0\0\7\xff\xff")
    assert [give("shop.Nothing"), give("shop.Order", b"\xff"), give("shop.Order")] == [422, 422, 204]
    assert [each["kind"] for each in console.read("schemas") if each["topic"] == "proto"] == ["Protobuf"]
    found = [row["value"] for row in console.read("records", topic="proto", partition=0, offset=0)["records"]]
    assert [(each["form"], each["text"]) for each in found[:3]] == [("protobuf", '{"order_id": "150"}')] * 3
    assert [each["form"] for each in found[3:]] == ["hex", "hex"]
    assert console.answer("PUT", "/console/schemas?topic=proto", {}, token)[0] == 422


def test_the_newest_producers_of_all_partitions_are_shown_and_the_others_counted(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 3)
    monkeypatch.setattr(producers, "READ_AT_ONCE", 1)
    console.broker.topics.create("crowd", 2)
    with console.client() as client:
        for number in range(1, 6):
            produce(client, "crowd", b"a", partition=number % 2, producer_id=number, base_sequence=0)
    found = console.read("producers", topic="crowd")
    assert [row["producer_id"] for row in found["producers"]] == [5, 4, 3]
    assert found["left_out"] == 2


def test_producer_query_returns_its_last_five_batches_and_retries(console: Console) -> None:
    console.broker.topics.create("window")
    with console.client("writer") as client:
        for number in range(7):
            produce(client, "window", b"a", b"b", producer_id=90, base_sequence=2 * number)
        assert produce(client, "window", b"a", b"b", producer_id=90, base_sequence=8) == 8
    (row,) = console.read("producers", topic="window")["producers"]
    assert (row["producer_id"], row["producer_epoch"], row["open_from"], row["transactional_id"]) == (90, 0, -1, None)
    assert [(each["first_sequence"], each["last_sequence"], each["first_offset"]) for each in row["window"]] == [
        (sequence, sequence + 1, sequence) for sequence in (4, 6, 8, 10, 12)
    ]
    assert row["absorbed_count"] == 1
    assert [(each["client_id"], each["base_sequence"], each["offset"]) for each in row["absorbed"]] == [("writer", 8, 8)]
    newest, before = console.read("requests", limit=2)["requests"]
    assert newest["absorbed"]
    assert newest["what"] == "window-0: 2 records of producer 90 epoch 0 sequence 8 at offset 8 already"
    assert (before["absorbed"], before["number"]) == (False, newest["number"] - 1)


def test_request_log_has_errors_faults_and_lost_responses_but_no_quiet_requests(console: Console) -> None:
    console.broker.topics.create("log")
    quiet = console.read("requests")["quiet"]
    console.broker.faults.add("error:api=Produce,topic=log,code=NOT_LEADER_OR_FOLLOWER,times=1,name=refusing")
    console.broker.faults.add("drop-ack:api=Produce,topic=log,after=1,times=1,name=losing")
    with console.client("one") as client:
        assert produce_as(client, None, batch(b"a", producer_id=91), topic="log").error_code == 6
        fetch(client, "log")
        with pytest.raises(ConnectionError):
            produce_as(client, None, batch(b"a", producer_id=91), topic="log")
    with console.client("two") as client:
        assert produce_as(client, None, batch(b"a", producer_id=91), topic="log").base_offset == 0
    console.broker.faults.reset()
    log = console.read("requests", limit=10)
    rows = [row for row in log["requests"] if "log-0" in row["what"]]
    assert [(row["error"], row["faults"], row["seen"], row["absorbed"], row["client_id"]) for row in rows] == [
        ("", [], True, True, "two"),
        ("", ["losing"], False, False, "one"),
        ("NOT_LEADER_OR_FOLLOWER", ["refusing"], True, False, "one"),
    ]
    assert log["quiet"] == quiet + 1


def test_transaction_query_returns_outcomes_and_blocked_partitions(console: Console) -> None:
    console.broker.topics.create("held")
    with console.client() as client:
        done, hanging = init(client, "held-done"), init(client, "held-hanging", timeout_ms=40_000)
        for holder in (done, hanging):
            assert holder.add(("held", 0)) == [0]
            records = batch(b"a", producer_id=holder.producer_id, epoch=holder.epoch, transactional=True)
            assert produce_as(client, holder.transactional_id, records, topic="held", version=11).error_code == 0
        assert done.end(commit=False).error_code == 0
        found = console.read("transactions")
        rows = {row["transactional_id"]: row for row in found["transactions"]}
        assert [move["state"] for move in rows["held-done"]["moves"]] == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
        assert (rows["held-hanging"]["state"], rows["held-hanging"]["partitions"], rows["held-hanging"]["timeout_ms"]) == (
            "Ongoing",
            ["held-0"],
            40_000,
        )
        (held,) = [each for each in found["holding"] if each["topic"] == "held"]
        assert (held["transactional_id"], held["producer_id"], held["first_offset"]) == ("held-hanging", hanging.producer_id, 1)
        assert (held["last_stable"], held["high_watermark"]) == (1, 3)
        (open_,) = [row for row in console.read("producers", topic="held")["producers"] if row["open_from"] >= 0]
        assert (open_["transactional_id"], open_["open_from"]) == ("held-hanging", 1)
        assert hanging.end(commit=True).error_code == 0
        assert [each for each in console.read("transactions")["holding"] if each["topic"] == "held"] == []


def test_group_query_returns_members_and_the_lag_of_each_partition(console: Console) -> None:
    console.broker.topics.create("t", 2)
    with console.client("reader") as client:
        produce(client, "t", *(b"%d" % number for number in range(5)))
        find_coordinator(client)
        joined, both = join(client), encode_prefixed(ConsumerProtocolAssignment([TopicPartition("t", [0, 1])]), 0)
        assert sync(client, joined.member_id, 1, {joined.member_id: both}).error_code == 0
        assert commit(client, 2, member_id=joined.member_id, generation_id_or_member_epoch=1) == 0
        assert commit(client, 4, group_id="alone") == 0
        assert consumer_join(client, "m" * 22, group_id="new").error_code == 0
    rows = {row["group_id"]: row for row in console.read("groups")["groups"]}
    assert {name: (row["kind"], row["state"], row["members"], row["lag"]) for name, row in rows.items()} == {
        "alone": ("offsets", "Empty", 0, 1),
        "g": ("classic", "Stable", 1, 3),
        "new": ("consumer", "Stable", 1, 0),
    }
    group = console.read("group", name="g")
    (member,) = group["member_rows"]
    assert (member["client_id"], member["assigned"], group["generation"], group["protocol"]) == ("reader", ["t-0", "t-1"], 1, "range")
    assert [(each["partition"], each["committed"], each["end"], each["lag"], each["member_id"]) for each in group["offsets"]] == [
        (0, 2, 5, 3, joined.member_id),
        (1, None, 0, None, joined.member_id),
    ]
    assert console.read("group", name="new")["member_rows"][0]["assigned"] == ["t-0", "t-1"]
    assert [row["group_id"] for row in console.read("groups", contains="alo")["groups"]] == ["alone"]
    assert console.answer("GET", "/console/group?name=nobody")[0] == 404


def test_standalone_node_is_shown_as_its_own_cluster_with_its_events(console: Console) -> None:
    console.broker.topics.create("made")
    found = console.read("cluster")
    (row,) = found["brokers"]
    assert (found["alone"], found["decides_here"], row["this"], row["state"], row["node_id"]) == (
        True,
        True,
        True,
        "serving",
        found["node_id"],
    )
    assert row["leads"] == row["replicas"] > 0
    assert (found["events"][0]["about"], found["events"][0]["text"]) == ("made", "was created")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([PartitionChangeRecord(0, ID, leader=2, isr=[2])],
         [("election", "is led by 2 after 1", False), ("in-sync", "ISR: 2, after 1 2", True)]),
        ([PartitionChangeRecord(0, ID, leader=-1)], [("election", "has no leader after 1", True)]),
        ([PartitionChangeRecord(0, ID, leader=-1), PartitionChangeRecord(0, ID, leader=2, isr=[2], leader_recovery_state=1)],
         [("election", "has no leader after 1", True),
          ("election", "is led by 2 after no leader, elected uncleanly: committed records may be lost", True),
          ("in-sync", "ISR: 2, after 1 2", True)]),
        ([PartitionChangeRecord(0, ID, isr=[1, 2, 3])], [("in-sync", "ISR: 1 2 3, after 1 2", False)]),
        ([BrokerRegistrationChangeRecord(3, 1, fenced=1)], [("broker", "was fenced: its heartbeats stopped", True)]),
        ([BrokerRegistrationChangeRecord(3, 1, fenced=-1)], [("broker", "was unfenced", False)]),
        ([UnregisterBrokerRecord(3, 1)], [("broker", "was unregistered", True)]),
        ([RemoveTopicRecord(ID)], [("topic", "was deleted", False)]),
    ],
)  # fmt: skip
def test_metadata_records_are_described_as_events(records: list[MetadataRecord], expected: list[tuple[str, str, bool]]) -> None:
    made: list[MetadataRecord] = [TopicRecord("t", ID), PartitionRecord(0, ID, replicas=[1, 2, 3], isr=[1, 2], leader=1), *records]
    data = b"".join(build_batch([SimpleRecord(None, encode_record(each, 0), 5)], base_offset=at) for at, each in enumerate(made))
    found = events(data, {})[::-1]
    assert [(each.kind, each.text, each.bad) for each in found[1:]] == expected
    assert {each.about for each in found} <= {"t", "t-0", "broker 3"}
    assert events(data + b"\0" * 70, {})[::-1] == found


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "none", ""),
        (b"", "text", ""),
        (b"words", "text", "words"),
        ("grüße 🙂".encode(), "text", "grüße 🙂"),
        (b'{"a": 1.10}', "json", '{"a": 1.10}'),
        (b"[1, 2", "text", "[1, 2"),
        pytest.param(b"[" * 100_000, "text", "[" * 64, id="deep"),
        (b"123", "text", "123"),
        (b"\x00\x01", "hex", "0001"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"a\x1b[31m", "hex", "611b5b33316d"),
        pytest.param(("é" * 33).encode()[:65], "text", "é" * 32, id="cut in a character"),
    ],
)
def test_bytes_are_rendered_by_their_detected_form(data: bytes | None, form: str, text: str) -> None:
    found = render(data, 64)
    assert (found.form, found.text, found.size) == (form, text, len(data or b""))
    assert found.cut == (len(data or b"") > 64)


def test_record_and_wire_log_queries_need_the_token_if_the_broker_has_an_authorizer() -> None:
    """The token is needed although the request comes from this machine: any local user can connect, and ACLs may deny him these records."""
    clock = MovableClock()
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
    with InProcessBroker(clock=clock, settings=settings) as broker, served(broker, clock) as console:
        broker.topics.create("secrets")
        with console.client() as client:
            produce(client, "secrets", b"one")
        records = "/console/records?topic=secrets&partition=0&offset=0"
        for path in (records, "/console/wire"):
            assert console.answer("GET", path)[0] == 401, path
            assert console.answer("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200, path
        assert console.answer("GET", "/console/topics")[0] == 200


def test_console_queries_need_the_token_unless_local_access_is_open() -> None:
    clock = MovableClock()
    with InProcessBroker(clock=clock) as broker, served(broker, clock, open_local=False) as console:
        for path in ("/console/broker", "/console/topics"):
            assert console.answer("GET", path)[0] == 401
            assert console.answer("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert console.answer("GET", "/console")[0] in {200, 307}
