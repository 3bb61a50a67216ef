from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ottla.broker.core import limits
from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.rules import parse_filter
from ottla.broker.faults.wire_log import WireLog, document, line, plain
from ottla.protocol.codec import encode_response
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k33_alter_configs import AlterableConfig as OldConfig
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest
from ottla.protocol.messages.k33_alter_configs import AlterConfigsResource as OldResource
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from tests.support.exchanges import beat, exchange_of

TOPIC, BROKER = 2, 4
TIMEOUT_S = 20


def test_line_has_time_client_api_subject_sizes_duration_and_result() -> None:
    assert line(beat()) == "2023-11-14T22:13:20.123Z  client=me  connection=7  Heartbeat v4  group g  40 B -> 16 B  1.5 ms  ok"
    assert line(beat(27, seen=False, faults=("lost",))).endswith("40 B -> 16 B, not sent  1.5 ms  REBALANCE_IN_PROGRESS  faults=lost")


def test_peers_text_cannot_break_the_line() -> None:
    text = line(beat(client="evil\nclient\x1b[2J"))
    assert text.isprintable()
    assert "client=evil\\nclient\\x1b[2J" in text


def test_request_without_a_response_is_logged() -> None:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(3, b"r" * 9)])]
    text = exchange_of(ProduceRequest(acks=0, topic_data=topics), None, version=9, seen=False)
    assert "t-3  40 B -> no response" in line(text)
    assert document(text)["request"]["topic_data"][0]["partition_data"] == [{"index": 3, "records": "9 bytes"}]


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    assert plain(TopicProduceData(topic_id=bytes(15) + b"\x01"))["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_secrets_are_not_logged() -> None:
    secret = "correct horse"
    brokers = [
        IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [AlterableConfig("ssl.key.password", value=secret)])]),
        AlterConfigsRequest([OldResource(BROKER, "1", [OldConfig("ssl.keystore.password", secret)])]),
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("ann", 1, 4096, secret.encode(), b"0123456789abcdef")]),
    ]
    for request in brokers:
        text = json.dumps(plain(request))
        assert secret not in text
        assert "0123456789abcdef" not in text
    topic = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", value="5")])])
    assert plain(topic)["resources"][0]["configs"][0]["value"] == "5"
    assert plain(brokers[0])["resources"][0]["configs"][0] == {"name": "ssl.key.password", "config_operation": 0, "value": "***"}


def test_a_limited_document_marks_where_lists_and_texts_are_cut() -> None:
    many = MetadataRequest([MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)])
    text = plain(many, 500)
    assert len(text["topics"]) < 30
    assert text["topics"][0]["name"] == "topic-0"
    assert text["topics"][-1] == f"… and {1001 - len(text['topics'])} more"
    assert len(json.dumps(text)) < 2_000
    assert plain(InitProducerIdRequest("x" * 300), 100)["transactional_id"].endswith("xxx… (300 characters)")
    assert len(plain(many)["topics"]) == 1000


def test_integers_that_javascript_would_round_are_text_in_a_limited_document() -> None:
    request = InitProducerIdRequest(producer_id=2**53 - 1)
    assert plain(request, 100)["producer_id"] == 2**53 - 1
    request = InitProducerIdRequest(producer_id=2**63 - 1)
    assert (plain(request, 100)["producer_id"], plain(request)["producer_id"]) == ("9223372036854775807", 2**63 - 1)


def test_only_matching_exchanges_are_logged() -> None:
    text: list[str] = []
    WireLog(text.append, [parse_filter("api=Fetch"), parse_filter("group=g*,client_id=me")])(beat())
    assert len(text) == 1
    WireLog(text.append, [parse_filter("api=Fetch")])(beat())
    WireLog(text.append, errors_only=True)(beat())
    WireLog(text.append, slower_than_ms=2)(beat())
    assert len(text) == 1
    WireLog(text.append, errors_only=True, slower_than_ms=1, as_json=True)(beat(27))
    found = json.loads(text[1])
    assert (found["api"], found["errors"], found["took_ms"], found["response_bytes"]) == ("Heartbeat", ["REBALANCE_IN_PROGRESS"], 1.5, 16)
    assert found["response"] == {"throttle_time_ms": 0, "error_code": 27}


LONG = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(10_000)])
LONG_BYTES = sum(map(len, encode_response(3, 9, 0, LONG)))


class Lines:
    """The written lines. Each write by another thread than the test's waits for `resume`."""

    def __init__(self) -> None:
        self._testing = threading.get_ident()
        self._lines: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        self.resume = threading.Semaphore(0)

    def write(self, line: str) -> None:
        by_test = threading.get_ident() == self._testing
        self._lines.put((line, by_test))
        assert by_test or self.resume.acquire(timeout=TIMEOUT_S)

    def next(self) -> tuple[str, bool]:
        """Return the next line, and whether the test's thread wrote it."""
        return self._lines.get(timeout=TIMEOUT_S)


@pytest.mark.parametrize("as_json", [False, True])
def test_long_response_is_logged_completely_by_a_thread(as_json: bool) -> None:
    lines = Lines()
    lines.resume.release()
    exchange = exchange_of(MetadataRequest(None), LONG, version=9)
    WireLog(lines.write, as_json=as_json)(exchange)
    assert lines.next() == (json.dumps(document(exchange)) if as_json else line(exchange), False)
    assert f"-> {LONG_BYTES} B" in line(exchange)
    assert len(document(exchange)["response"]["topics"]) == len(LONG.topics)


def test_long_request_is_formatted_by_a_thread_only_as_json() -> None:
    exchange = exchange_of(MetadataRequest([MetadataRequestTopic(name="t")] * 10_000), MetadataResponse(), version=9)
    for as_json in (False, True):
        lines = Lines()
        lines.resume.release()
        WireLog(lines.write, as_json=as_json)(exchange)
        assert lines.next()[1] is not as_json


def test_long_response_is_logged_shorter_while_too_many_wait_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # This thread pool never runs an exchange, so each submitted exchange keeps its slot.
    monkeypatch.setattr("ottla.broker.faults.wire_log.ThreadPoolExecutor", lambda *_: SimpleNamespace(submit=lambda *_: None))
    lines, documents = Lines(), Lines()
    exchange = exchange_of(MetadataRequest(None), LONG, version=9)
    for log in (WireLog(lines.write), WireLog(documents.write, as_json=True)):
        for _ in range(limits.WIRE_LOG_WAITING + 1):
            log(exchange)
    text, by_test = lines.next()
    assert ("-> ? B  1.5 ms" in text, by_test) == (True, True)
    cut = json.loads(documents.next()[0])
    assert (cut["response_bytes"], "more" in cut["response"]["topics"][-1]) == (None, True)


def test_long_responses_json_is_truncated_while_too_many_bytes_wait_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[tuple[Callable[[Exchange], None], Exchange]] = []
    thread = SimpleNamespace(submit=lambda *work: waiting.append(work))
    monkeypatch.setattr("ottla.broker.faults.wire_log.ThreadPoolExecutor", lambda *_: thread)
    lines = Lines()
    log = WireLog(lines.write, as_json=True)
    exchange = replace(exchange_of(MetadataRequest(None), LONG, version=9), response_bytes=limits.WIRE_LOG_WAITING_BYTES)
    log(exchange)
    log(exchange)
    assert len(waiting) == 1
    assert "more" in json.loads(lines.next()[0])["response"]["topics"][-1]
    write, of = waiting.pop()
    write(of)
    assert len(json.loads(lines.next()[0])["response"]["topics"]) == len(LONG.topics)
    log(exchange)
    assert len(waiting) == 1
