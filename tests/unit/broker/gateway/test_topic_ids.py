from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.gateway.topic_ids import FIRST_VERSION, topic_ids
from ottla.protocol.codec import decode_response, decode_response_head, encode_response
from ottla.protocol.errors import MalformedMessage, ProtocolError
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

VERSIONS = range(FIRST_VERSION, MetadataResponse.MAX_VERSION + 1)
ids = st.lists(st.integers(0, 9), max_size=300)
partitions = st.builds(MetadataResponsePartition, replica_nodes=ids, isr_nodes=ids, offline_replicas=ids)
names = st.text("é-z", max_size=200)
topics = st.builds(MetadataResponseTopic, name=names, topic_id=st.binary(min_size=16, max_size=16), partitions=st.lists(partitions))
responses = st.builds(MetadataResponse, cluster_id=st.none() | names, topics=st.lists(topics))


def names_of(response: MetadataResponse) -> list[tuple[bytes, str | None]]:
    return [(topic.topic_id, topic.name) for topic in response.topics if topic.name and any(topic.topic_id)]


def frame_of(response: MetadataResponse, version: int) -> memoryview:
    return memoryview(b"".join(encode_response(3, version, 1, response))[4:])


def walked(frame: memoryview, version: int) -> list[tuple[bytes, str] | None]:
    return list(topic_ids(version, frame, decode_response_head(3, version, frame, "brokers")[1]))


@given(responses, st.sampled_from(VERSIONS))
def test_the_names_of_all_topics_with_an_id_are_read_with_a_pause_for_each_partition(response: MetadataResponse, version: int) -> None:
    found = walked(frame_of(response, version), version)
    assert [known for known in found if known] == names_of(response)
    assert len(found) == sum(1 + len(topic.partitions) for topic in response.topics)


@given(responses, st.sampled_from(VERSIONS), st.data())
def test_a_response_that_ends_early_or_late_is_invalid(response: MetadataResponse, version: int, data: st.DataObject) -> None:
    frame = frame_of(response, version)
    start = decode_response_head(3, version, frame, "brokers")[1]
    for wrong in (frame[: data.draw(st.integers(start, len(frame) - 1))], memoryview(bytes(frame) + b"\0")):
        with pytest.raises(MalformedMessage):
            list(topic_ids(version, wrong, start))


@given(responses, st.sampled_from(VERSIONS), st.data())
def test_a_response_with_a_wrong_byte_is_read_as_by_the_decoder(response: MetadataResponse, version: int, data: st.DataObject) -> None:
    frame = bytearray(frame_of(response, version))
    start = decode_response_head(3, version, frame, "brokers")[1]
    frame[data.draw(st.integers(start, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        _, expected = decode_response(3, version, frame)
    except ProtocolError:
        return
    assert [known for known in topic_ids(version, memoryview(frame), start) if known] == names_of(expected)


def test_impossible_partition_count_is_malformed() -> None:
    frame = bytearray(frame_of(MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=b"i" * 16)]), 12))
    start = frame.index(b"i" * 16) + 17
    frame[start : start + 1] = b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedMessage):
        walked(memoryview(frame), 12)
