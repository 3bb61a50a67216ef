from __future__ import annotations

import pytest

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import (
    decode_request,
    decode_response,
    decode_response_head,
    encode_request,
    encode_response,
    encode_response_head,
    request_class,
    response_class,
)
from ottla.protocol.encoder import SEPARATE_MIN
from ottla.protocol.errors import MalformedMessage, UnsupportedVersion
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

LARGE = bytes(SEPARATE_MIN)


def size_of(buffers: list[bytes | bytearray | memoryview]) -> int:
    return int.from_bytes(buffers[0][:4], "big")


def test_a_request_is_one_frame_with_its_size_first() -> None:
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, LARGE)])])
    buffers = encode_request(ApiKey.PRODUCE, 9, 5, "me", request)
    frame = b"".join(buffers)
    assert size_of(buffers) == len(frame) - 4
    read = decode_request(frame[4:])
    assert (read.header.correlation_id, read.header.client_id, read.body) == (5, "me", request)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_fetched_records_are_encoded_without_a_copy(version: int) -> None:
    records = memoryview(LARGE)
    response = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(records=records), PartitionData(1, records=records)])]
    )
    buffers = encode_response(ApiKey.FETCH, version, 9, response)
    assert [buffer for buffer in buffers if buffer is records] == [records, records]
    assert size_of(buffers) == sum(map(len, buffers)) - 4
    assert decode_response(ApiKey.FETCH, version, b"".join(buffers)[4:]) == (9, response)


@pytest.mark.parametrize("version", range(14))
def test_response_head_is_replaced_and_the_following_bytes_are_kept(version: int) -> None:
    response = MetadataResponse(7, [MetadataResponseBroker(1, "a", 9092)], topics=[MetadataResponseTopic(name="t")])
    frame = memoryview(b"".join(encode_response(ApiKey.METADATA, version, 9, response))[4:])
    head, pos = decode_response_head(ApiKey.METADATA, version, frame, "brokers")
    assert (head.brokers, head.topics) == (response.brokers, [])
    head.brokers = response.brokers = [MetadataResponseBroker(1, "b" * 200, 1)] * 200
    buffers = encode_response_head(version, 9, head, "brokers", frame[pos:])
    assert b"".join(buffers) == b"".join(encode_response(ApiKey.METADATA, version, 9, response))


def test_response_head_is_validated_like_the_whole_response() -> None:
    frame = b"".join(encode_response(ApiKey.METADATA, 12, 9, MetadataResponse(brokers=[MetadataResponseBroker(1, "a", 9092)])))[4:]
    with pytest.raises(MalformedMessage, match="brokers"):
        decode_response_head(ApiKey.METADATA, 12, frame[:15], "brokers")


def test_response_ending_in_records_has_no_empty_buffer_at_the_end() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=LARGE)])])
    assert all(encode_response(ApiKey.FETCH, 4, 9, response))


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_the_response_to_api_versions_never_has_a_flexible_header(version: int) -> None:
    (frame,) = encode_response(ApiKey.API_VERSIONS, version, 0x01020304, ApiVersionsResponse(error_code=35))
    assert frame[4:10] == b"\1\2\3\4" + b"\0\x23"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.API_VERSIONS, 6), (ApiKey.PRODUCE, 2), (ApiKey.FETCH, -1), (4, 0), (999, 0), (-1, 0)])
def test_unknown_api_or_version_is_rejected_with_its_header_fields(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7\0\2me" + b"whatever"
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(frame)
    error = caught.value
    assert (error.api_key, error.version, error.correlation_id, error.client_id) == (key, version, 7, "me")


def test_a_malformed_request_names_the_field_and_its_offset_in_the_frame() -> None:
    frame = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 7, "me", ApiVersionsRequest("name", "1")))[4:]
    with pytest.raises(MalformedMessage, match="ApiVersionsRequest v3: client_software_version at offset 19"):
        decode_request(frame[:-2])


def test_classes_are_found_by_key() -> None:
    assert (request_class(0), response_class(1)) == (ProduceRequest, FetchResponse)
    with pytest.raises(KeyError):
        request_class(ApiKey.LEADER_AND_ISR)


def test_bytes_after_a_request_are_ignored() -> None:
    """A request for all topics by librdkafka 2.16: after the null array (-1) one byte of another four-byte count follows."""
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    request = decode_request(frame)
    assert request.body.topics is None
