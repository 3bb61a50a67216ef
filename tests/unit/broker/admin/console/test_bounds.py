from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.admin.console import records, transactions
from ottla.broker.groups.embedded_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import encode_prefixed
from tests.support.console import TOKEN, Console, running_console
from tests.support.group_calls import find_coordinator, join, sync
from tests.support.topic_calls import produce
from tests.support.transactions import produce_as
from tests.support.txn_calls import init

NOW = 1_000


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with running_console() as found:
        yield found


def write(console: Console, topic: str, *written: SimpleRecord) -> None:
    with console.client() as client:
        assert produce_as(client, None, build_batch(written, codec=Codec.ZSTD), topic=topic).error_code == 0


def test_newest_records_are_returned_even_if_earlier_ones_are_large(console: Console) -> None:
    console.broker.topics.create("large")
    with console.client() as client:
        for number in range(40):
            produce(client, "large", b"%d" % number + b"." * 30_000)
    page = console.read("records", topic="large", partition=0, offset=-40)
    assert page["next_offset"] == page["end"] == 40
    assert page["records"][-1]["value"]["text"].startswith("39.")
    assert [row["offset"] for row in page["records"]] == list(range(40 - len(page["records"]), 40))
    assert console.read("records", topic="large", partition=0, offset=0)["records"][0]["offset"] == 0


def test_newest_transaction_states_are_returned_even_after_many_older_records(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "TAIL_BYTES", 4_000)
    places = [(f"wide-{number}-{'t' * 200}", 0) for number in range(5)]
    for name, _ in places:
        console.broker.topics.create(name)
    with console.client() as client:
        holder = init(client, "wide")
        for _ in range(4):
            assert holder.add(*places) == [0] * 5
            holder.epoch = holder.end(commit=True, version=5).producer_epoch
    (row,) = [each for each in console.read("transactions")["transactions"] if each["transactional_id"] == "wide"]
    assert [move["state"] for move in row["moves"]][-2:] == ["PrepareCommit", "CompleteCommit"]


def test_only_requested_records_of_a_large_batch_are_decoded_and_none_beyond_the_limit(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.broker.topics.create("many")
    write(console, "many", *[SimpleRecord(None, b"%d" % number, NOW) for number in range(500)])
    opened: list[Record] = []

    def counted(*given: Any, **more: Any) -> Iterator[Record]:
        for record in iter_records(*given, **more):
            opened.append(record)
            yield record

    monkeypatch.setattr(records, "iter_records", counted)
    page = console.read("records", topic="many", partition=0, offset=-3)
    assert ([row["value"]["text"] for row in page["records"]], len(opened)) == (["497", "498", "499"], 3)
    monkeypatch.setattr(records, "OPENED_RECORDS", 499)
    page = console.read("records", topic="many", partition=0, offset=-3)
    assert [row["problem"] for row in page["records"]] == ["the batch has 500 records; the console opens batches of at most 499"]


def test_response_ends_at_a_size_or_time_limit_and_the_next_request_continues(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    console.broker.topics.create("heads")
    write(console, "heads", *[SimpleRecord(None, b"", NOW, [("h" * 1024, b"")] * 60)] * 200)
    status, _, content = console.answer("GET", "/console/records?topic=heads&partition=0&offset=0&limit=200")
    page = json.loads(content)
    assert status == 200
    assert len(content) < 3 * records.SHOWN_BYTES / 2
    assert {len(row["headers"]) for row in page["records"]} == {records.HEADERS_MAX}
    assert page["next_offset"] == len(page["records"]) < 200
    monkeypatch.setattr(records, "RESPONSE_CPU_S", -1)
    page = console.read("records", topic="heads", partition=0, offset=7)
    assert ([row["offset"] for row in page["records"]], page["next_offset"]) == ([7], 8)
    page = console.read("records", topic="heads", partition=0, offset=-5)
    assert ([row["offset"] for row in page["records"]], page["next_offset"]) == ([199], 200)


def test_value_with_very_many_nested_messages_is_shown_as_bytes(console: Console) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="the extra schemas is not installed: run `make setup`")
    files, field = descriptor_pb2.FileDescriptorSet(), descriptor_pb2.FieldDescriptorProto
    file = files.file.add(name="tree.proto", package="tree", syntax="proto3")
    of_itself = {"type": field.TYPE_MESSAGE, "type_name": ".tree.Tree", "label": field.LABEL_REPEATED}
    file.message_type.add(name="Tree").field.add(name="twigs", number=1, **of_itself)
    protobuf = {"message": "tree.Tree", "descriptors": b64encode(files.SerializeToString()).decode()}
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert console.answer("PUT", "/console/schemas?topic=trees", {"protobuf": protobuf}, token)[0] == 204
    console.broker.topics.create("trees")
    twig = b"\x0a\x00"
    write(console, "trees", *[SimpleRecord(None, twig * count, NOW) for count in (2, 20_000, 20_001, 100_000)])
    # One is always shown; a slow processor leaves the others for the next answer.
    shown = [console.read("records", topic="trees", partition=0, offset=offset)["records"][0] for offset in range(4)]
    assert [row["value"]["form"] for row in shown] == ["protobuf", "protobuf", "hex", "hex"]
    assert shown[0]["value"]["text"] == '{"twigs": [{}, {}]}'


def test_members_assigned_partitions_are_limited_and_counted(console: Console) -> None:
    with console.client() as client:
        find_coordinator(client)
        joined = join(client)
        mine = encode_prefixed(ConsumerProtocolAssignment([TopicPartition("wherever", list(range(20_000)))]), 0)
        assert sync(client, joined.member_id, 1, {joined.member_id: mine}).error_code == 0
        (member,) = console.read("group", name="g")["member_rows"]
    assert (member["assigned"][:2], len(member["assigned"]), member["assigned_count"]) == (["wherever-0", "wherever-1"], 50, 20_000)
