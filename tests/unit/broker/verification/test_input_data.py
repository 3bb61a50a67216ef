from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.testing.contents import Visibility, contents
from ottla.broker.verification.input_data import PARTITIONS, committed_to_the_end, fill, fill_rest
from ottla.broker.verification.verifier_client import VerifierClient
from ottla.protocol.client import Client
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.running_broker import RunningBroker

NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running:
        running.topics.create("input", PARTITIONS)
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    with broker.client() as connected:
        yield connected


@pytest.fixture
def verifier_client(broker: RunningBroker) -> Iterator[VerifierClient]:
    asking = VerifierClient(lambda: [broker.bootstrap])
    yield asking
    asking.close()


@pytest.mark.parametrize("records", [20, 51])
def test_the_input_holds_each_record_once_and_aborted_ones_between(
    broker: RunningBroker, verifier_client: VerifierClient, records: int
) -> None:
    fill(verifier_client, "input", records, NOW_MS)
    before = broker.call(contents)
    assert len([each for each in before if each.outcome.readable]) == records - 2 * PARTITIONS
    for partition in range(PARTITIONS):
        fill_rest(verifier_client, "input", partition, records, NOW_MS)
    stored = broker.call(contents)
    readable = [each for each in stored if each.outcome.readable]
    assert sorted(each.value or b"" for each in readable) == sorted(b"in-%d" % number for number in range(records))
    assert len({each.key for each in readable}) == records
    aborted = [each for each in stored if each.outcome is Visibility.ABORTED]
    assert {each.partition for each in aborted} == set(range(PARTITIONS))
    assert all((each.value or b"").startswith(b"aborted-") for each in aborted)
    assert len(stored) == len(readable) + len(aborted)


def test_each_part_ends_in_a_plain_record(broker: RunningBroker, verifier_client: VerifierClient) -> None:
    fill(verifier_client, "input", 40, NOW_MS)
    for partition in range(PARTITIONS):
        for step in ("most", "rest"):
            last = max((each for each in broker.call(contents) if each.partition == partition), key=lambda each: each.offset)
            assert (last.outcome, last.offset) == (Visibility.PLAIN, broker.topics.end_offset("input", partition) - 1), step
            fill_rest(verifier_client, "input", partition, 40, NOW_MS)


def test_a_group_has_read_everything_when_all_its_commits_are_at_the_ends(client: Client, verifier_client: VerifierClient) -> None:
    ends = {0: 7, 1: 9}

    for group in ("g", "h"):
        while client.call(FindCoordinatorRequest(key=group, key_type=0), 3).error_code:
            pass

    def read(*groups: str) -> bool:
        return committed_to_the_end(verifier_client, groups, "input", ends)

    def commit(group: str, partition: int, offset: int) -> None:
        part = OffsetCommitRequestPartition(partition, offset)
        client.call(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("input", partitions=[part])]), 5)

    assert not read()
    assert not read("g")
    commit("g", 0, 7)
    assert not read("g")
    commit("h", 1, 9)
    assert not read("g", "h"), "two groups do not read the input together"
    commit("g", 1, 8)
    assert not read("g")
    commit("g", 1, 9)
    assert read("g", "h")
