from __future__ import annotations

from client_compat.differential.normalise import Names, differences, normalise
from ottla.protocol.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from ottla.protocol.messages.k61_describe_producers import ProducerState
from ottla.protocol.records.record import SimpleRecord, build_batch


def metadata(host: str, port: int, topic_id: bytes, error: int = 0) -> MetadataResponse:
    broker = MetadataResponseBroker(1, host, port)
    return MetadataResponse(7, [broker], "cluster-of-" + host, 1, [MetadataResponseTopic(error, "t", topic_id)])


def test_addresses_ids_and_throttle_times_are_no_difference() -> None:
    one, other = metadata("a", 1, b"1" * 16), metadata("b", 2, b"2" * 16)
    assert differences(normalise(one, Names()), normalise(other, Names())) == []


def test_different_error_code_is_reported_with_name_and_path() -> None:
    one, other = metadata("a", 1, b"1" * 16), metadata("a", 1, b"1" * 16, error=3)
    assert differences(normalise(one, Names()), normalise(other, Names())) == [
        ("topics[t].error_code", "0 NONE", "3 UNKNOWN_TOPIC_OR_PARTITION")
    ]


def test_zero_id_differs_from_an_id() -> None:
    one, other = metadata("a", 1, b"1" * 16), metadata("a", 1, bytes(16))
    assert [path for path, _, _ in differences(normalise(one, Names()), normalise(other, Names()))] == ["topics[t].topic_id"]


def test_element_on_one_side_only_does_not_shift_the_others() -> None:
    kafka = [{"name": "a", "v": 1}, {"name": "b", "v": 2}]
    assert differences(kafka, [{"name": "b", "v": 2}], "configs") == [("configs[a]", {"name": "a", "v": 1}, None)]


def test_records_are_compared_by_their_content() -> None:
    def fetched(value: bytes) -> FetchResponse:
        records = build_batch([SimpleRecord(None, value, 1_000)])
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, records=records)])])

    same = differences(normalise(fetched(b"x"), Names()), normalise(fetched(b"x"), Names()))
    (other,) = differences(normalise(fetched(b"x"), Names()), normalise(fetched(b"y"), Names()))
    assert same == []
    assert other[0] == "responses[t].partitions[0].records[0].values[0]"


def test_producer_ids_are_named_in_order_of_appearance() -> None:
    names = Names()
    first, second, again = (normalise(ProducerState(producer_id), names)["producer_id"] for producer_id in (5000, 6000, 5000))
    assert (first, second, again) == ("<producer_id 1>", "<producer_id 2>", "<producer_id 1>")
    assert normalise(ProducerState(-1), names)["producer_id"] == -1
