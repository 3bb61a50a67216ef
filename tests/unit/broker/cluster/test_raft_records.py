from __future__ import annotations

from ottla.broker.cluster.raft_records import (
    ElectionVoter,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotHeaderRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
    control_batch,
)
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.control import ControlType, control_type
from ottla.protocol.records.record import iter_records
from ottla.protocol.schema import decode, encode


def test_control_records_have_the_bytes_of_kafkas_schemas() -> None:
    assert encode(SnapshotHeaderRecord(0, 258), 0).hex() == "0000" + "0000000000000102" + "00"
    assert encode(KRaftVersionRecord(0, 1), 0).hex() == "0000" + "0001" + "00"


def test_a_voters_record_has_directories_listeners_and_versions() -> None:
    directory = bytes(range(16))
    record = VotersRecord(0, [Voter(3, directory, [VoterEndpoint("C", "h", 9093)], KRaftVersionFeature(0, 1))])
    endpoint = "02" + "0243" + "0268" + "2385" + "00"
    assert encode(record, 0).hex() == "0000" + "02" + "00000003" + directory.hex() + endpoint + "0000" + "0001" + "00" + "00" + "00"
    assert decode(VotersRecord, encode(record, 0), 0) == record


def test_a_leader_change_message_has_the_leader_and_the_voters() -> None:
    record = LeaderChangeMessage(0, 3000, [ElectionVoter(3000)], [ElectionVoter(3000)])
    assert encode(record, 0).hex() == "0000" + "00000bb8" + 2 * ("02" + "00000bb8" + "00") + "00"


def test_control_records_of_one_batch_have_their_types() -> None:
    batch = control_batch([LeaderChangeMessage(0, 1), KRaftVersionRecord(0, 1)], 5, 2, 1_000)
    header = read_header(batch)
    assert (header.base_offset, header.next_offset, header.partition_leader_epoch, header.is_control) == (5, 7, 2, True)
    assert [control_type(record.key) for record in iter_records(batch)] == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION]
