from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k27_write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import Transactional, fetch, latest


def write(client: Client, *markers: WritableTxnMarker, version: int | None = None) -> list[list[int]]:
    """Send WriteTxnMarkers; return each marker's errors by partition."""
    response = client.call(WriteTxnMarkersRequest(list(markers)), version)
    return [[partition.error_code for topic in marker.topics for partition in topic.partitions] for marker in response.markers]


def marker(
    producer_id: int, epoch: int, *topics: str, commit: bool = False, coordinator_epoch: int = 0, version: int = 0
) -> WritableTxnMarker:
    places = [WritableTxnMarkerTopic(topic, [0]) for topic in topics]
    return WritableTxnMarker(producer_id, epoch, commit, places, coordinator_epoch, version)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_a_hanging_transaction(broker: RunningBroker, client: Client, commit: bool) -> None:
    create(client, "t")
    hanging = Transactional(broker).init()
    assert hanging.produce(client, 0).error_code == 0
    assert latest(client, committed=True) == 0
    assert write(client, marker(hanging.producer_id, hanging.epoch, "t", commit=commit, coordinator_epoch=7)) == [[0]]
    assert latest(client, committed=True) == 2
    records = bytes(fetch(client, committed=False).records or b"")
    (_, (position, header)) = split_batches(records)
    written = parse_marker(records[position : position + header.size_bytes])
    assert (written.type, written.coordinator_epoch) == (ControlType.COMMIT if commit else ControlType.ABORT, 7)


def test_with_transaction_version_2_only_a_later_epoch_ends_a_transaction(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    hanging = Transactional(broker).init()
    assert hanging.produce(client, 0).error_code == 0
    same, later = (marker(hanging.producer_id, hanging.epoch + more, "t", version=2) for more in (0, 1))
    assert write(client, same, version=2) == [[ErrorCode.INVALID_PRODUCER_EPOCH]]
    assert latest(client, committed=True) == 0
    assert write(client, later, version=2) == [[0]]
    assert latest(client, committed=True) == 2
    assert write(client, later, version=2) == [[0]], "a retry of what was written"


def test_before_transaction_version_2_the_same_epoch_ends_a_transaction(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    hanging = Transactional(broker).init()
    assert hanging.produce(client, 0).error_code == 0
    assert write(client, marker(hanging.producer_id, hanging.epoch, "t", version=2), version=1) == [[0]]
    assert latest(client, committed=True) == 2


def test_each_partition_of_each_marker_has_its_own_error(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    assert write(client, marker(1, 5, "t", coordinator_epoch=3), marker(2, 5, "t", coordinator_epoch=3)) == [[0], [0]]
    assert write(
        client,
        marker(1, 4, "t", "nowhere", coordinator_epoch=3),
        marker(2, 5, "t", coordinator_epoch=2),
        marker(3, 6, "t", coordinator_epoch=3),
    ) == [
        [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.TRANSACTION_COORDINATOR_FENCED],
        [0],
    ]


def test_several_markers_of_one_producer_have_one_entry(client: Client) -> None:
    for topic in ("t", "u"):
        create(client, topic, partitions=2)
    first = WritableTxnMarker(1, 5, True, [WritableTxnMarkerTopic("t", [1])], 3)
    second = WritableTxnMarker(1, 5, True, [WritableTxnMarkerTopic("u", [0]), WritableTxnMarkerTopic("t", [0, 9])], 3)
    response = client.call(WriteTxnMarkersRequest([first, second]))
    (answer,) = response.markers
    codes = {(topic.name, one.partition_index): one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes == {("t", 1): 0, ("u", 0): 0, ("t", 0): 0, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert sorted(topic.name for topic in answer.topics) == ["t", "u"]


def test_markers_of_one_producer_have_one_entry_however_many_others_are_between(client: Client) -> None:
    """So many markers are handled in parts. Kafka's coordinator keeps only the last entry of a producer, and waits forever for the rest."""
    first, last = "t" * 50, "u" * 50
    create(client, first)
    others = [marker(producer_id, 5, "nowhere" * 5) for producer_id in range(2, 60)]
    request = WriteTxnMarkersRequest([marker(1, 5, first, commit=True), *others, marker(1, 6, first, last)])
    response = client.call(request)
    assert sorted(entry.producer_id for entry in response.markers) == list(range(1, 60))
    codes = {topic.name: topic.partitions[0].error_code for entry in response.markers if entry.producer_id == 1 for topic in entry.topics}
    assert codes == {first: 0, last: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    records = bytes(fetch(client, first, committed=False).records or b"")
    written = [parse_marker(records[position : position + header.size_bytes]) for position, header in split_batches(records)]
    assert [one.type for one in written] == [ControlType.COMMIT, ControlType.ABORT]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (1, -1), (-(2**63), -32768)])
def test_a_marker_without_a_producer_is_rejected(client: Client, producer_id: int, epoch: int) -> None:
    create(client, "t")
    assert write(client, marker(producer_id, epoch, "t")) == [[ErrorCode.INVALID_REQUEST]]
    assert latest(client, committed=False) == 0


def test_a_marker_in_an_offsets_partition_makes_offsets_visible(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    client.call(FindCoordinatorRequest("g"), version=3)
    holder = Transactional(broker).init()
    place = broker.call(lambda running: running.services.groups.offsets_partition("g").index)
    ended = WritableTxnMarker(holder.producer_id, holder.epoch, True, [WritableTxnMarkerTopic("__consumer_offsets", [place, 99])], 0)
    assert write(client, ended) == [[0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]


def test_a_request_without_markers_has_an_empty_response(client: Client) -> None:
    assert write(client) == []


@pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])
def test_a_marker_of_a_later_coordinator_epoch_does_not_fence_the_producers_own_coordinator(
    broker: RunningBroker, client: Client, version: int
) -> None:
    create(client, "t")
    producer = Transactional(broker, version=version).init()
    assert write(client, marker(producer.producer_id, producer.epoch, "t", coordinator_epoch=1_000)) == [[0]]
    producer.add(("t", 0))
    assert producer.produce(client, 0).error_code == 0
    assert producer.end(commit=True) is ErrorCode.NONE
    assert latest(client, committed=True) == latest(client, committed=False) == 3
