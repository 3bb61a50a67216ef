from __future__ import annotations

from ottla.broker.cluster.raft_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    SnapshotHeaderRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
)
from ottla.protocol.schema import decode, encode


def test_control_records_have_the_bytes_of_kafkas_schemas() -> None:
    assert encode(SnapshotHeaderRecord(0, 258), 0).hex() == "0000" + "0000000000000102" + "00"
    assert encode(KRaftVersionRecord(0, 1), 0).hex() == "0000" + "0001" + "00"


def test_a_voter_is_written_with_its_directory_its_listeners_and_what_it_knows() -> None:
    directory = bytes(range(16))
    record = VotersRecord(0, [Voter(3, directory, [VoterEndpoint("C", "h", 9093)], KRaftVersionFeature(0, 1))])
    endpoint = "02" + "0243" + "0268" + "2385" + "00"
    assert encode(record, 0).hex() == "0000" + "02" + "00000003" + directory.hex() + endpoint + "0000" + "0001" + "00" + "00" + "00"
    assert decode(VotersRecord, encode(record, 0), 0) == record
