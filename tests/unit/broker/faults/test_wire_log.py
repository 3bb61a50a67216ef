from __future__ import annotations

import json

from ottla.broker.faults.rules import parse_filter
from ottla.broker.faults.wire_log import WireLog, document, line, plain
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k33_alter_configs import AlterableConfig as OldConfig
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest
from ottla.protocol.messages.k33_alter_configs import AlterConfigsResource as OldResource
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from tests.support.exchanges import beat, exchange_of

TOPIC, BROKER = 2, 4


def test_a_line_says_when_who_what_how_much_how_long_and_with_what_result() -> None:
    assert line(beat()) == "2023-11-14T22:13:20.123Z  client=me  connection=7  Heartbeat v4  group g  40 B -> 16 B  1.5 ms  ok"
    assert line(beat(27, seen=False, faults=("lost",))).endswith("40 B -> 16 B, not sent  1.5 ms  REBALANCE_IN_PROGRESS  faults=lost")


def test_a_peers_text_stays_on_its_line() -> None:
    told = line(beat(client="evil\nclient\x1b[2J"))
    assert told.isprintable()
    assert "client=evil\\nclient\\x1b[2J" in told


def test_a_request_without_a_response_is_told() -> None:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(3, b"r" * 9)])]
    told = exchange_of(ProduceRequest(acks=0, topic_data=topics), None, version=9, seen=False)
    assert "t-3  40 B -> no response" in line(told)
    assert document(told)["request"]["topic_data"][0]["partition_data"] == [{"index": 3, "records": "9 bytes"}]


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    assert plain(TopicProduceData(topic_id=bytes(15) + b"\x01"))["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_no_secret_is_written() -> None:
    secret = "correct horse"
    brokers = [
        IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [AlterableConfig("ssl.key.password", value=secret)])]),
        AlterConfigsRequest([OldResource(BROKER, "1", [OldConfig("ssl.keystore.password", secret)])]),
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("ann", 1, 4096, secret.encode(), b"0123456789abcdef")]),
    ]
    for request in brokers:
        told = json.dumps(plain(request))
        assert secret not in told
        assert "0123456789abcdef" not in told
    topic = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", value="5")])])
    assert plain(topic)["resources"][0]["configs"][0]["value"] == "5"
    assert plain(brokers[0])["resources"][0]["configs"][0] == {"name": "ssl.key.password", "config_operation": 0, "value": "***"}


def test_a_limited_document_marks_where_lists_and_texts_are_cut() -> None:
    many = MetadataRequest([MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)])
    told = plain(many, 500)
    assert len(told["topics"]) < 30
    assert told["topics"][0]["name"] == "topic-0"
    assert told["topics"][-1] == f"… and {1001 - len(told['topics'])} more"
    assert len(json.dumps(told)) < 2_000
    assert plain(InitProducerIdRequest("x" * 300), 100)["transactional_id"].endswith("xxx… (300 characters)")
    assert len(plain(many)["topics"]) == 1000


def test_integers_that_javascript_would_round_are_text_in_a_limited_document() -> None:
    request = InitProducerIdRequest(producer_id=2**53 - 1)
    assert plain(request, 100)["producer_id"] == 2**53 - 1
    request = InitProducerIdRequest(producer_id=2**63 - 1)
    assert (plain(request, 100)["producer_id"], plain(request)["producer_id"]) == ("9223372036854775807", 2**63 - 1)


def test_filters_leave_out_the_rest() -> None:
    told: list[str] = []
    WireLog(told.append, [parse_filter("api=Fetch"), parse_filter("group=g*,client_id=me")])(beat())
    assert len(told) == 1
    WireLog(told.append, [parse_filter("api=Fetch")])(beat())
    WireLog(told.append, errors_only=True)(beat())
    WireLog(told.append, slower_than_ms=2)(beat())
    assert len(told) == 1
    WireLog(told.append, errors_only=True, slower_than_ms=1, as_json=True)(beat(27))
    found = json.loads(told[1])
    assert (found["api"], found["errors"], found["took_ms"], found["response_bytes"]) == ("Heartbeat", ["REBALANCE_IN_PROGRESS"], 1.5, 16)
    assert found["response"] == {"throttle_time_ms": 0, "error_code": 27}
