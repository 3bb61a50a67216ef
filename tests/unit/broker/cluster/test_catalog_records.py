"""Golden bytes: worked out by hand from Kafka's schemas, and compared once with what Kafka 4.1's own classes write."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from ottla.protocol.errors import ProtocolError

ID = bytes(range(16))
DIRECTORY = bytes(range(16, 32))

GOLDEN: list[tuple[MetadataRecord, str]] = [
    (TopicRecord(name="foo", topic_id=ID), "01 02 00  04 666f6f" + ID.hex() + "00"),
    (
        PartitionRecord(
            partition_id=3, topic_id=ID, replicas=[1], isr=[1], leader=1, leader_epoch=5, partition_epoch=7, directories=[DIRECTORY]
        ),
        "01 03 02 00000003" + ID.hex() + "02 00000001 02 00000001 01 01 00000001 00000005 00000007 02" + DIRECTORY.hex() + "00",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="foo", name="retention.ms", value="1"),
        "01 04 00  02 04 666f6f 0d 726574656e74696f6e2e6d73 02 31 00",
    ),
    (ConfigRecord(resource_type=4, resource_name="", name="a", value=None), "01 04 00 04 01 02 61 00 00"),
    (PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1), "01 05 02 00000000" + ID.hex() + "01 01 04 00000001"),
    (RemoveTopicRecord(topic_id=ID), "01 09 00" + ID.hex() + "00"),
    (FeatureLevelRecord(name="metadata.version", feature_level=27), "01 0c 00 11 6d657461646174612e76657273696f6e 001b 00"),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=-1, next_producer_id=1000),
        "01 0f 00 00000001 ffffffffffffffff 00000000000003e8 00",
    ),
]


@pytest.mark.parametrize(("record", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_a_record_is_written_in_kafkas_bytes_and_read_back(record: MetadataRecord, golden: str) -> None:
    assert encode_record(record).hex() == golden.replace(" ", "")
    assert decode_record(bytes.fromhex(golden)) == record


@pytest.mark.parametrize(("level", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)])
def test_a_partition_is_written_in_the_version_of_the_logs_level(level: int, version: int) -> None:
    for record in (PartitionRecord(topic_id=ID, directories=[DIRECTORY]), PartitionChangeRecord(topic_id=ID, leader=1)):
        written = encode_record(record, level)
        assert written[2] == version
        read = decode_record(written)
        assert isinstance(read, PartitionRecord | PartitionChangeRecord)
        assert (read.topic_id, read.leader) == (ID, record.leader)
        assert bool(read.directories) is (version >= 1 and isinstance(record, PartitionRecord))


def test_a_newer_kafkas_partition_record_with_tagged_fields_is_read() -> None:
    value = "01 03 02 00000000" + ID.hex() + "02 00000001 02 00000001 01 01 00000001 00000000 00000000 02" + DIRECTORY.hex()
    tags = "02 01 05 02 00000001 02 01 01"
    record = decode_record(bytes.fromhex(value + tags))
    assert isinstance(record, PartitionRecord)
    assert record.eligible_leader_replicas == [1]
    assert record.last_known_elr == []


def test_a_registration_survives_the_way_to_the_log_and_back() -> None:
    record = RegisterBrokerRecord(broker_id=1, incarnation_id=ID, fenced=False, rack="r", log_dirs=[DIRECTORY])
    assert decode_record(encode_record(record)) == record


def test_a_registration_of_kafka_4_3_is_read_with_its_cordoned_directories() -> None:
    added = f"02 00 11 02{DIRECTORY.hex()} 01 11 02{ID.hex()}"
    value = f"01 00 04 00000001 00 {ID.hex()} 0000000000000009 01 01 00 00 00 {added}"
    record = decode_record(bytes.fromhex(value))
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_id, record.broker_epoch, record.log_dirs, record.cordoned_log_dirs) == (1, 9, [DIRECTORY], [ID])


def test_a_kind_of_record_that_we_do_not_use_is_passed_over() -> None:
    assert decode_record(bytes.fromhex("01 14 00 00")) is None


@pytest.mark.parametrize("damaged", ["", "01", "00 02 00", "02 02 00", "01 02 01 00", "01 02 00 04 66", "01 09 00" + "00" * 17 + "00"])
def test_a_damaged_record_is_a_protocol_error(damaged: str) -> None:
    with pytest.raises(ProtocolError):
        decode_record(bytes.fromhex(damaged))
