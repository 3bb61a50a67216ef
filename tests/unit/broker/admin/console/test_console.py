"""What the console's JSON says of a broker that real requests were sent to. Each test has topics and ids of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.admin.console.page import parts
from ottla.broker.admin.console.shown import shown
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.console import TOKEN, Console, console
from tests.support.topic_calls import produce
from tests.support.transactions import produce_as
from tests.support.txn_calls import init

PAGE_BYTES_MAX = 200 << 10


@pytest.fixture(scope="module")
def room() -> Iterator[Console]:
    with console() as found:
        yield found


def batch(*values: bytes, producer_id: int = -1, epoch: int = 0, sequence: int = 0, **more: Any) -> bytes:
    """Of a time long ago: with markers of today, a new segment begins at each turn."""
    records = [SimpleRecord(b"k", value, 1_000) for value in values]
    idempotent = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence} if producer_id >= 0 else {}
    return build_batch(records, **idempotent, **more)


def fates(page: Any) -> list[str]:
    return [row["control"] or row["fate"] for row in page["records"]]


def test_without_it_nothing_of_it_is_imported() -> None:
    code = "import sys, ottla.broker.app, ottla.broker.admin.server; print([m for m in sys.modules if 'console' in m and 'ottla' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_is_small_and_may_load_nothing_from_elsewhere(room: Console) -> None:
    assert sum(len(content) for _, content in parts().values()) < PAGE_BYTES_MAX
    for path, (media_type, content) in parts().items():
        status, headers, body = room.answer("GET", path)
        assert (status, headers["content-type"], body) == (200, media_type, content)
        policy = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
        assert b"innerHTML" not in body
        assert b"https://" not in body


def test_the_page_is_for_everybody_and_what_it_reads_is_not(room: Console) -> None:
    elsewhere = {"Host": "broker.example:9644"}
    for path in parts():
        assert room.answer("GET", path, headers=elsewhere)[0] == 200
        assert room.answer("POST", path, headers=elsewhere)[0] == 401
    described = json.loads(room.answer("GET", "/openapi.json")[2])["paths"]
    asked = [path for path in described if path.startswith("/console/")]
    assert len(asked) >= 4
    for path in asked:
        assert list(described[path]) == ["get"], "what the console adds only reads"
        assert room.answer("GET", path, headers=elsewhere)[0] == 401, path
    assert room.answer("GET", "/console/broker", headers={**elsewhere, "Authorization": f"Bearer {TOKEN}"})[0] == 200
    assert room.answer("GET", "/console/../health", headers=elsewhere)[0] == 401


def test_topics_tell_where_their_partitions_stand(room: Console) -> None:
    room.broker.topics.create("sizes", 2, {"retention.ms": "1000"})
    with room.client() as client:
        produce(client, "sizes", b"one", b"two", partition=1)
    (row,) = room.read("topics", contains="sizes")["topics"]
    assert (row["partitions"], row["here"], row["offsets"], row["leaderless"], row["out_of_sync"]) == (2, 2, 2, 0, 0)
    topic = room.read("topic", name="sizes")
    assert topic["settings"] == {"retention.ms": "1000"}
    node = room.read("broker")["node_id"]
    assert [(each["index"], each["leader"], each["in_sync"], each["log"]["end"]) for each in topic["partitions"]] == [
        (0, node, [node], 0),
        (1, node, [node], 2),
    ]
    assert row["size_bytes"] == topic["partitions"][1]["log"]["size_bytes"] > 0
    assert room.answer("GET", "/console/topic?name=nowhere")[0] == 404


def test_records_tell_who_wrote_them_and_what_became_of_their_transaction(room: Console) -> None:
    room.broker.topics.create("fates")
    with room.client() as client:
        produce_as(client, None, batch(b"plain"), topic="fates")
        produce_as(client, None, batch(b"idempotent", producer_id=77, epoch=3, sequence=5, codec=Codec.GZIP), topic="fates")
        for commit in (True, False, None):
            holder = init(client, f"fates-{commit}")
            assert holder.add(("fates", 0)) == [0]
            writer = {"producer_id": holder.producer_id, "epoch": holder.epoch, "transactional": True}
            assert produce_as(client, holder.transactional_id, batch(b"a", b"b", **writer), topic="fates", version=11).error_code == 0
            if commit is not None:
                assert holder.end(commit=commit).error_code == 0
    page = room.read("records", topic="fates", partition=0, offset=0)
    assert fates(page) == ["none", "none", "committed", "committed", "commit", "aborted", "aborted", "abort", "open", "open"]
    assert page["last_stable"] == 8 < page["high_watermark"] == page["next_offset"] == 10
    idempotent = page["records"][1]
    assert [idempotent[name] for name in ("producer_id", "producer_epoch", "sequence", "codec", "offset")] == [77, 3, 5, "gzip", 1]
    assert [row["transactional_id"] for row in page["records"][5:9]] == ["fates-False", "fates-False", "fates-False", "fates-None"]
    assert [row["sequence"] for row in page["records"][8:]] == [0, 1]
    assert fates(room.read("records", topic="fates", partition=0, offset=6, limit=2)) == ["aborted", "abort"]


def test_a_page_of_records_ends_where_it_was_asked_to_and_the_next_goes_on(room: Console) -> None:
    room.broker.topics.create("pages")
    with room.client() as client:
        produce(client, "pages", *(b"%d" % number for number in range(7)))
        produce(client, "pages", *(b"%d" % number for number in range(7, 9)))
    found, offset = [], 0
    while offset < 9:
        page = room.read("records", topic="pages", partition=0, offset=offset, limit=4)
        assert len(page["records"]) <= 4
        found += [row["value"]["text"] for row in page["records"]]
        offset = page["next_offset"]
    assert found == [str(number) for number in range(9)]
    assert [row["offset"] for row in room.read("records", topic="pages", partition=0, offset=-3)["records"]] == [6, 7, 8]
    assert room.read("records", topic="pages", partition=0, offset=99)["records"] == []
    for wrong in ("limit=0", "limit=201", "value_bytes=300000", "partition=-1"):
        assert room.answer("GET", f"/console/records?topic=pages&partition=0&{wrong}")[0] == 422, wrong
    assert room.answer("GET", "/console/records?topic=pages&partition=5")[0] == 404


def test_a_long_value_is_cut_and_whole_where_that_is_asked_for(room: Console) -> None:
    room.broker.topics.create("long")
    with room.client() as client:
        produce(client, "long", b"x" * 5_000)
    (cut,) = room.read("records", topic="long", partition=0)["records"]
    assert (len(cut["value"]["text"]), cut["value"]["size"], cut["value"]["cut"]) == (1024, 5_000, True)
    (whole,) = room.read("records", topic="long", partition=0, value_bytes=100_000)["records"]
    assert (whole["value"]["text"], whole["value"]["cut"]) == ("x" * 5_000, False)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "none", ""),
        (b"", "text", ""),
        (b"words", "text", "words"),
        ("grüße 🙂".encode(), "text", "grüße 🙂"),
        (b'{"a": 1.10}', "json", '{"a": 1.10}'),
        (b"[1, 2", "text", "[1, 2"),
        (b"[" * 100_000, "text", "[" * 64),
        (b"123", "text", "123"),
        (b"\x00\x01", "hex", "0001"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"a\x1b[31m", "hex", "611b5b33316d"),
        (("é" * 33).encode()[:65], "text", "é" * 32),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, form: str, text: str) -> None:
    found = shown(data, 64)
    assert (found.form, found.text, found.size) == (form, text, len(data or b""))
    assert found.cut == (len(data or b"") > 64)
