from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.testing.contents import Visibility, contents
from ottla.broker.verification.input_data import (
    PARTITIONS,
    any_group_is_done,
    configure_share_group,
    fill,
    fill_last,
    share_group_is_done,
)
from ottla.broker.verification.verifier_client import VerifierClient
from ottla.protocol.client import Client
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import AT_ONCE, prepare, read, settle, write
from tests.support.topic_calls import produce

NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", AT_ONCE) as running:
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
def test_input_has_each_record_once_with_aborted_ones_between(broker: RunningBroker, verifier_client: VerifierClient, records: int) -> None:
    fill(verifier_client, "input", records, NOW_MS)
    before = broker.call(contents)
    assert len([each for each in before if each.outcome.readable]) == records - 2 * PARTITIONS
    for partition in range(PARTITIONS):
        fill_last(verifier_client, "input", partition, records, NOW_MS)
    stored = broker.call(contents)
    readable = [each for each in stored if each.outcome.readable]
    assert sorted(each.value or b"" for each in readable) == sorted(b"in-%d" % number for number in range(records))
    assert len({each.key for each in readable}) == records
    aborted = [each for each in stored if each.outcome is Visibility.ABORTED]
    assert {each.partition for each in aborted} == set(range(PARTITIONS))
    assert all((each.value or b"").startswith(b"aborted-") for each in aborted)
    assert len(stored) == len(readable) + len(aborted)


def test_each_part_of_the_input_ends_in_a_non_transactional_record(broker: RunningBroker, verifier_client: VerifierClient) -> None:
    fill(verifier_client, "input", 40, NOW_MS)
    for partition in range(PARTITIONS):
        for step in ("most", "rest"):
            last = max((each for each in broker.call(contents) if each.partition == partition), key=lambda each: each.offset)
            assert (last.outcome, last.offset) == (Visibility.PLAIN, broker.topics.end_offset("input", partition) - 1), step
            fill_last(verifier_client, "input", partition, 40, NOW_MS)


def test_a_group_has_read_everything_when_all_its_commits_are_at_the_ends(client: Client, verifier_client: VerifierClient) -> None:
    ends = {0: 7, 1: 9}

    for group in ("g", "h"):
        while client.call(FindCoordinatorRequest(key=group, key_type=0), 3).error_code:
            pass

    def read(*groups: str) -> bool:
        return any_group_is_done(verifier_client, groups, "input", ends)

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


def test_a_share_group_has_finished_when_no_partition_has_a_lag(client: Client, verifier_client: VerifierClient) -> None:
    topic_id = prepare(client, PARTITIONS)
    for partition in (0, 0, 1):
        produce(client, "t", b"x", partition=partition)

    def finished() -> bool:
        return share_group_is_done(verifier_client, "g", "t")

    assert not finished(), "there is no group"
    settle(client)
    assert not finished()
    epoch = read(client, topic_id).state_epoch
    write(client, topic_id, partition=0, state_epoch=epoch, start_offset=2)
    assert not finished(), "the other partition has a lag"
    write(client, topic_id, partition=1, state_epoch=epoch, start_offset=0, delivery_complete_count=1)
    assert finished(), "a record that is accepted is no lag, although the start offset has not moved"
    produce(client, "t", b"x", partition=1)
    assert not finished()


def test_share_group_reads_committed_records_from_the_earliest_unless_configured_otherwise(
    client: Client, verifier_client: VerifierClient
) -> None:
    def value(name: str) -> str | None:
        (result,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(ResourceType.GROUP, "g", [name])])).results
        return next(config.value for config in result.configs if config.name == name)

    configure_share_group(verifier_client, "g")
    assert (value("share.auto.offset.reset"), value("share.isolation.level")) == ("earliest", "read_committed")
    configure_share_group(verifier_client, "g", {"share.delivery.count.limit": "3"})
    assert (value("share.delivery.count.limit"), value("share.auto.offset.reset")) == ("3", "earliest")
