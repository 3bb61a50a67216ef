from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core import limits
from ottla.broker.gateway.address_book import AddressBook, ClientsView
from ottla.broker.gateway.session import GatewaySession
from ottla.protocol import wire
from ottla.protocol.codec import decode_response, encode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, MalformedHeader, ProtocolError, UnsupportedVersion
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse

METADATA = MetadataResponse(brokers=[MetadataResponseBroker(1, "a", 9092)])
AT_GATEWAY = MetadataResponse(brokers=[MetadataResponseBroker(1, "gw", 20_001)])


def new_session() -> GatewaySession:
    return GatewaySession(ClientsView(AddressBook([], lambda node_id: 20_000 + node_id), "gw"))


def request(message: Any, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_request(message.API_KEY, version, correlation_id, "test", message))


def response(message: Any, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response(message.API_KEY, version, correlation_id, message))


def to_client(session: GatewaySession) -> bytes:
    return b"".join(session.take_to_client())


def to_cluster(session: GatewaySession) -> bytes:
    return b"".join(session.take_to_cluster())


def unknown(correlation_id: int, body: bytes = b"body") -> bytes:
    frame = struct.pack(">hhih", 999, 7, correlation_id, -1) + body
    return struct.pack(">i", len(frame)) + frame


def produce(acks: int, version: int, correlation_id: int) -> bytes:
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, b"r" * 30)])]
    return request(ProduceRequest(transactional_id="tx", acks=acks, topic_data=topics), version, correlation_id)


def test_unknown_api_passes_in_both_directions() -> None:
    session, answer = new_session(), struct.pack(">ii", 9, 5) + b"hello"
    session.from_client(unknown(5))
    session.from_cluster(answer)
    assert (to_cluster(session), to_client(session)) == (unknown(5), answer)


@given(st.lists(st.integers(1, 20), min_size=1))
def test_addresses_are_rewritten_however_the_bytes_are_split(steps: list[int]) -> None:
    session = new_session()
    sent = request(MetadataRequest([]), 9, 1) + request(HeartbeatRequest("g"), 4, 2) + request(MetadataRequest([]), 12, 3)
    answers = response(METADATA, 9, 1) + response(HeartbeatResponse(), 4, 2) + response(METADATA, 12, 3)
    for data, feed in ((sent, session.from_client), (answers, session.from_cluster)):
        at = turn = 0
        while at < len(data):
            feed(data[at : at + steps[turn % len(steps)]])
            at, turn = at + steps[turn % len(steps)], turn + 1
    assert to_cluster(session) == sent
    assert to_client(session) == response(AT_GATEWAY, 9, 1) + response(HeartbeatResponse(), 4, 2) + response(AT_GATEWAY, 12, 3)
    assert session.held_bytes == 0


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_produce_request_without_acknowledgements_has_no_response(version: int) -> None:
    session = new_session()
    session.from_client(produce(0, version, 1) + produce(1, version, 2) + produce(-1, version, 3))
    with pytest.raises(ProtocolError, match="answered request 1 instead of 2"):
        session.from_cluster(struct.pack(">ii", 4, 1))
    session = new_session()
    session.from_client(produce(0, version, 1) + request(HeartbeatRequest("g"), 4, 2))
    session.from_cluster(response(HeartbeatResponse(), 4, 2))
    assert to_client(session) == response(HeartbeatResponse(), 4, 2)


def test_response_without_a_request_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="without a request"):
        new_session().from_cluster(struct.pack(">ii", 4, 1))


@pytest.mark.parametrize("record", ["15030300020250", "1603030200010001fc0303", "15030300020250" + "15030300020100"])
def test_tls_answer_of_the_cluster_is_reported_with_advice(record: str) -> None:
    session = new_session()
    session.from_client(unknown(5))
    with pytest.raises(ProtocolError, match=r"the cluster's listener uses TLS, and the gateway does not: name a file .* by --to-config"):
        session.from_cluster(bytes.fromhex(record))


def test_response_with_another_correlation_id_is_a_protocol_error() -> None:
    session = new_session()
    session.from_client(unknown(5))
    with pytest.raises(ProtocolError, match="answered request 6 instead of 5"):
        session.from_cluster(struct.pack(">ii", 4, 6))


@pytest.mark.parametrize("frame", [b"", b"\0\3", struct.pack(">hhi", 0, 13, 1), struct.pack(">hhih", 0, 13, 1, 30_000) + bytes(20)])
def test_a_request_that_ends_before_its_head_is_rejected(frame: bytes) -> None:
    with pytest.raises(MalformedHeader):
        new_session().from_client(struct.pack(">i", len(frame)) + frame)


def test_a_response_without_room_for_a_correlation_id_is_rejected() -> None:
    session = new_session()
    session.from_client(unknown(5))
    with pytest.raises(MalformedHeader):
        session.from_cluster(struct.pack(">i", 2) + b"\0\0")


def test_the_head_of_a_produce_request_is_bounded() -> None:
    session, tags = new_session(), b"\x01\x09\xff\xff\xff\x7f"  # one tagged field of 2**28 - 1 bytes
    session.from_client(struct.pack(">ihhih", 2**29, 0, 13, 1, -1) + tags)
    session.from_client(bytes(limits.GATEWAY_HEAD_BYTES - 100))
    with pytest.raises(MalformedHeader):
        session.from_client(bytes(1_000))


def test_a_head_with_too_many_tags_is_not_read_again_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    session, reads = new_session(), []
    monkeypatch.setattr(wire, "read_uvarint", lambda buf, pos, read=wire.read_uvarint: reads.append(pos) or read(buf, pos))
    session.from_client(struct.pack(">ihhih", 10**7, 0, 13, 1, -1) + b"\xe0\xd4\x03" + b"\x85\0\0" * 20_000)  # of 60,000 tags
    for _ in range(10):
        session.from_client(b"\x85")
    assert len(reads) <= 11


def test_a_metadata_response_with_too_many_tags_is_rejected() -> None:
    session = new_session()
    session.from_client(request(MetadataRequest([]), 12, 1))
    valid = response(METADATA, 12, 1)[8:]
    frame = struct.pack(">i", 1) + b"\x65" + b"\5\0" * 101 + valid[1:]
    with pytest.raises(MalformedHeader, match="101 tagged fields"):
        session.from_cluster(struct.pack(">i", len(frame)) + frame)


def test_a_rewritten_api_in_a_version_that_is_not_known_ends_the_connection() -> None:
    with pytest.raises(UnsupportedVersion):
        new_session().from_client(struct.pack(">ihhih", 10, 3, 99, 1, -1))


def test_a_response_that_would_be_collected_and_is_too_large_is_rejected_before_it_arrives() -> None:
    session = new_session()
    session.from_client(request(MetadataRequest([]), 9, 1))
    with pytest.raises(FrameTooLarge):
        session.from_cluster(struct.pack(">ii", 2**31 - 1, 1))


def test_a_large_metadata_response_is_rewritten_in_parts_and_later_responses_wait_for_it() -> None:
    session, parts = new_session(), 8
    topics = [MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()] * (limits.GATEWAY_STEPS * parts))]
    session.from_client(request(MetadataRequest(None), 12, 1) + request(HeartbeatRequest("g"), 4, 2))
    later = response(HeartbeatResponse(), 4, 2)
    session.from_cluster(response(MetadataResponse(brokers=METADATA.brokers, topics=topics), 12, 1) + later)
    calls = 0
    while session.is_rewriting:
        assert (to_client(session), session.held_bytes > limits.GATEWAY_STEPS * parts) == (b"", True)
        session.rewrite_more()
        calls += 1
    assert calls == parts
    assert to_client(session) == response(MetadataResponse(brokers=AT_GATEWAY.brokers, topics=topics), 12, 1) + later
    assert session.held_bytes == 0


def test_a_large_metadata_response_that_is_invalid_at_its_end_ends_the_connection() -> None:
    session = new_session()
    topics = [MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()] * limits.GATEWAY_STEPS * 2)]
    session.from_client(request(MetadataRequest(None), 12, 1))
    frame = response(MetadataResponse(topics=topics), 12, 1)[4:] + b"more"
    session.from_cluster(struct.pack(">i", len(frame)) + frame)
    session.rewrite_more()
    with pytest.raises(ProtocolError, match="4 bytes follow its end"):
        session.rewrite_more()
    assert to_client(session) == b""


def coordinators(host: str, port: int, count: int = 10_000) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator(f"group-{number}", 1, host, port) for number in range(count)])


def test_a_large_find_coordinator_response_is_decoded_changed_and_encoded_by_the_caller_and_later_responses_wait_for_it() -> None:
    session, computed = new_session(), 0
    session.from_client(request(FindCoordinatorRequest("", 0, ["g"]), 4, 1) + request(HeartbeatRequest("g"), 4, 2))
    later = response(HeartbeatResponse(), 4, 2)
    session.from_cluster(response(coordinators("a", 9092), 4, 1) + later)
    while session.is_rewriting:
        assert (to_client(session), session.has_work) == (b"", True)
        session.compute()
        computed += 1
        session.rewrite_more()
    assert computed == 4
    assert to_client(session) == response(coordinators("gw", 20_001), 4, 1) + later
    assert session.held_bytes == 0


def test_a_large_find_coordinator_response_that_is_invalid_at_its_end_ends_the_connection() -> None:
    session = new_session()
    session.from_client(request(FindCoordinatorRequest("", 0, ["g"]), 4, 1))
    frame = response(coordinators("a", 9092), 4, 1)[4:] + b"more"
    session.from_cluster(struct.pack(">i", len(frame)) + frame)
    session.compute()
    with pytest.raises(ProtocolError, match="4 bytes follow its end"):
        session.rewrite_more()
    assert to_client(session) == b""


def test_at_most_so_many_requests_wait_for_responses_also_of_one_read() -> None:
    session = new_session()
    every = [unknown(number) for number in range(limits.GATEWAY_IN_FLIGHT + 10)]
    session.from_client(b"".join(every))
    while session.needs_turn:
        session.resume()
    forwarded = to_cluster(session)
    assert (forwarded, session.is_full) == (b"".join(every[: limits.GATEWAY_IN_FLIGHT]), True)
    session.from_cluster(b"".join(struct.pack(">ii", 4, number) for number in range(7)))
    assert (to_cluster(session), session.is_full) == (b"".join(every[-10:-3]), True)
    session.from_cluster(b"".join(struct.pack(">ii", 4, number) for number in range(7, 11)))
    assert (to_cluster(session), session.is_full) == (b"".join(every[-3:]), False)


@pytest.mark.parametrize("message", [HeartbeatResponse(), FindCoordinatorResponse()], ids=["passed", "decoded"])
def test_very_many_responses_pass_in_several_turns(message: Any) -> None:
    session, count = new_session(), limits.GATEWAY_IN_FLIGHT
    asked = HeartbeatRequest("g") if isinstance(message, HeartbeatResponse) else FindCoordinatorRequest("", 0, ["g"])
    for number in range(count):
        session.from_client(request(asked, 4, number))
    every = [response(message, 4, number) for number in range(count)]
    session.from_cluster(b"".join(every))
    first = to_client(session)
    assert len(first) <= limits.GATEWAY_FRAMES_PER_TURN * len(every[0])
    assert session.needs_turn
    decoded = 0 if isinstance(message, HeartbeatResponse) else len(every[0]) // 8
    assert len(first) // len(every[0]) <= limits.GATEWAY_FRAMES_PER_TURN // (1 + decoded) + 1
    while session.needs_turn:
        session.resume()
    assert first + to_client(session) == b"".join(every)


def test_a_cluster_refuses_a_newer_api_versions_request_by_itself() -> None:
    session, newer = new_session(), struct.pack(">ihhih", 10, 18, 99, 2, -1)
    session.from_client(newer)
    assert to_cluster(session) == newer
    refused = response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, 4)]), 0, 2)
    session.from_cluster(refused)
    assert to_client(session) == refused


def test_an_error_before_authentication_in_response_to_a_newer_api_versions_request_passes() -> None:
    session, error = new_session(), struct.pack(">iihi", 10, 2, ErrorCode.ILLEGAL_SASL_STATE, 0)
    session.from_client(struct.pack(">ihhih", 10, 18, 99, 2, -1))
    session.from_cluster(error)
    assert to_client(session) == error


def test_a_version_of_api_versions_that_only_the_cluster_knows_is_refused() -> None:
    session = new_session()
    session.from_client(struct.pack(">ihhih", 10, 18, 99, 2, -1))
    session.from_cluster(struct.pack(">iihi", 10, 2, 0, 7))
    correlation_id, own = decode_response(18, 0, to_client(session)[4:])
    assert (correlation_id, own.error_code) == (2, ErrorCode.UNSUPPORTED_VERSION)


def test_gssapi_is_refused_with_the_clusters_mechanisms(caplog: pytest.LogCaptureFixture) -> None:
    session, handshake = new_session(), request(SaslHandshakeRequest("GSSAPI"), 1, 4)
    session.from_client(handshake)
    assert to_cluster(session) == handshake
    session.from_cluster(response(SaslHandshakeResponse(mechanisms=["PLAIN", "GSSAPI"]), 1, 4))
    _, refused = decode_response(17, 1, to_client(session)[4:])
    assert (refused.error_code, refused.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert "Kerberos" in caplog.text


def test_a_cluster_without_gssapi_refuses_it_by_itself() -> None:
    session = new_session()
    session.from_client(request(SaslHandshakeRequest("GSSAPI"), 1, 4))
    refused = response(SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"]), 1, 4)
    session.from_cluster(refused)
    assert to_client(session) == refused


def test_bare_tokens_of_an_old_handshake_pass_and_requests_follow() -> None:
    session = new_session()
    session.from_client(request(SaslHandshakeRequest("SCRAM-SHA-256"), 0, 1))
    session.from_cluster(response(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]), 0, 1))
    to_client(session)
    for token, answer in ((b"n,,n=u", b"r=1"), (b"c=biws", b"")):
        framed = struct.pack(">i", len(token)) + token
        session.from_client(framed)
        session.from_cluster(struct.pack(">i", len(answer)) + answer)
        assert to_client(session) == struct.pack(">i", len(answer)) + answer
    session.from_client(request(MetadataRequest([]), 9, 2))
    session.from_cluster(response(METADATA, 9, 2))
    assert decode_response(3, 9, to_client(session)[4:])[1].brokers[0].host == "gw"


def test_a_bare_bearer_token_that_is_refused_is_followed_by_another_one() -> None:
    session = new_session()
    session.from_client(request(SaslHandshakeRequest("OAUTHBEARER"), 0, 1))
    session.from_cluster(response(SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]), 0, 1))
    to_client(session)
    for token, answer in ((b"n,,\1auth=Bearer x\1\1", b'{"status":"invalid_token"}'), (b"\1", b"")):
        framed = struct.pack(">i", len(token)) + token
        session.from_client(framed)
        assert to_cluster(session).endswith(framed)
        session.from_cluster(struct.pack(">i", len(answer)) + answer)
        assert to_client(session) == struct.pack(">i", len(answer)) + answer
    session.from_client(unknown(5))
    session.from_cluster(struct.pack(">ii", 4, 5))
    assert to_client(session) == struct.pack(">ii", 4, 5)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_pass_or_are_rejected(of_client: bytes, of_cluster: bytes) -> None:
    session = new_session()
    with contextlib.suppress(ProtocolError):
        session.from_client(of_client)
        session.from_cluster(of_cluster)
    assert of_client.startswith(to_cluster(session))
