from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.core import limits
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import BrokerLiveness
from ottla.broker.replication.purgatory import Condition
from ottla.broker.replication.throttle import NO_LIMIT
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord
from tests.support.cluster_broker_dirs import ClusterBrokerDir, TopicPartition, broker, change, partition
from tests.support.metadata_images import level

ID, NEW_ID = b"i" * 16, b"n" * 16
FOLLOWERS_RATE = "follower.replication.throttled.rate"
START = [level(30), broker(1), broker(2), TopicRecord("t", ID)]


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[ClusterBrokerDir]:
    member = ClusterBrokerDir(tmp_path / "data")
    yield member
    member.close()


async def test_only_partitions_with_a_replica_here_are_led_or_followed(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]), partition(ID, 2, [2, 3]))
    assert member.roles() == {("t", 0): True, ("t", 1): False}
    assert member.fetchers.leaders == {("t", 1): 2}
    assert sorted(member.log_dir.logs) == [("t", 0), ("t", 1)]
    assert member.catalog.partition_count("t") == 3


async def test_a_later_topic_is_served_like_one_of_the_first_image(member: ClusterBrokerDir) -> None:
    await member.publish(*START)
    await member.publish(partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]))
    assert member.roles() == {("t", 0): True, ("t", 1): False}
    assert member.partitions.get("t", 0).replica.has_followers


async def test_a_replaced_leader_follows_and_can_be_elected_again(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [1, 2]))
    await member.publish(change(ID, 0, leader=2))
    assert (member.roles(), member.fetchers.leaders) == ({("t", 0): False}, {("t", 0): 2})
    with pytest.raises(Rejected):
        member.partitions.get("t", 0).replica.check_leads()
    await member.publish(change(ID, 0, leader=1))
    assert (member.roles(), member.fetchers.leaders) == ({("t", 0): True}, {})
    assert member.partitions.get("t", 0).leader_epoch == 2


async def test_fetching_restarts_with_a_leader_epoch_and_not_with_an_isr_change(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [2, 1]))
    await member.publish(change(ID, 0, isr=[2]))
    assert member.fetchers.begun == 1
    await member.publish(change(ID, 0, leader=2))
    assert member.fetchers.begun == 2


async def test_a_partition_without_a_leader_is_not_fetched(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [2, 1]))
    await member.publish(change(ID, 0, leader=-1))
    assert (member.roles(), member.fetchers.leaders) == ({("t", 0): False}, {})


async def test_only_in_sync_replicas_fetch_during_a_controlled_shutdown(member: ClusterBrokerDir) -> None:
    """KAFKA-14296, scenario 37: during its controlled shutdown a broker keeps fetching only where it is in the ISR."""
    await member.publish(*START, partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]))
    member.publisher.shutting_down = True
    await member.publish(change(ID, 0, leader=2), change(ID, 1, isr=[2]))
    assert member.fetchers.leaders == {("t", 0): 2}


async def test_a_reassigned_replica_is_deleted_and_no_other(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [2, 1]), partition(ID, 1, [1, 2]))
    deleted: list[str] = []
    member.publisher.on_deleted.append(lambda topic: deleted.append(topic.name))
    await member.publish(change(ID, 0, replicas=[2, 3], isr=[2, 3]))
    assert (member.roles(), member.fetchers.leaders) == ({("t", 1): True}, {})
    assert not (member.log_dir.path / "t-0").exists()
    assert deleted == [], "the topic is there, elsewhere"


async def test_a_topic_recreated_in_one_batch_has_an_empty_log(member: ClusterBrokerDir) -> None:
    """Scenario 30: the deletion and the creation are in one batch of metadata records."""
    await member.publish(*START, partition(ID, 0, [1, 2]))
    old = member.partitions.get("t", 0)
    await member.publish(RemoveTopicRecord(ID), TopicRecord("t", NEW_ID), partition(NEW_ID, 0, [1, 2]))
    assert old.removed
    assert member.partitions.get("t", 0).log.topic_id == NEW_ID
    assert member.partitions.by_topic_id(ID) is None


@pytest.mark.parametrize(("leaders", "led"), [((2, 1), True), ((2, 1, 2), False), ((2, -1, 1), True)])
async def test_the_last_record_of_a_partition_in_a_batch_applies_with_every_epoch(
    member: ClusterBrokerDir, leaders: tuple[int, ...], led: bool
) -> None:
    """KAFKA-13790, scenario 30: one batch elects `leaders` in turn; the last one leads, and each election counts as a leader epoch."""
    await member.publish(*START, partition(ID, 0, [1, 2]))
    elected: list[int] = []
    member.publisher.on_election.append(lambda name, index, epoch: elected.append(epoch))
    await member.publish(*(change(ID, 0, leader=leader) for leader in leaders), change(ID, 0, isr=[leaders[-1]]))
    assert (member.roles(), member.fetchers.leaders) == ({("t", 0): led}, {} if led else {("t", 0): 2})
    found = member.partitions.get("t", 0)
    assert (found.leader_epoch, found.replica.partition_epoch, elected) == (len(leaders), len(leaders) + 1, [len(leaders)] if led else [])


async def test_an_isr_change_reaches_new_and_current_leaders(member: ClusterBrokerDir) -> None:
    """KAFKA-13161, scenario 30: one record changes only the ISR, the other one also the leader."""
    await member.publish(*START, partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]))
    await member.publish(change(ID, 0, isr=[1]), change(ID, 1, leader=1, isr=[1]))
    assert [member.partitions.get("t", index).replica.leadership.in_sync.committed for index in range(2)] == [{1}, {1}]


async def test_many_elections_are_applied_and_reverted(member: ClusterBrokerDir) -> None:
    """Scenario 40: a controller elects a thousand preferred leaders in one batch."""
    many = range(1_000)
    await member.publish(*START, *(partition(ID, index, [1, 2], leader=2) for index in many))
    for epoch, leader in ((1, 1), (2, 2)):
        await member.publish(*(change(ID, index, leader=leader) for index in many))
        assert set(member.roles().values()) == {leader == 1}
        assert {each.leader_epoch for each in member.partitions} == {epoch}
        assert len(member.fetchers.leaders) == (0 if leader == 1 else len(many))


class Turns:
    """Records the state of the broker's partitions in each turn of the event loop while it applies a change."""

    def __init__(self, member: ClusterBrokerDir) -> None:
        self.looks: list[dict[TopicPartition, bool]] = []
        self._member = member

    async def of(self, *records: MetadataRecord) -> list[dict[TopicPartition, bool]]:
        telling = asyncio.ensure_future(self._member.publish(*records))
        while not telling.done():
            self.looks.append(self._member.roles())
            await asyncio.sleep(0)
        await telling
        return [*self.looks, self._member.roles()]


async def test_many_elections_yield_to_the_event_loop(member: ClusterBrokerDir) -> None:
    many = range(100)
    await member.publish(*START, *(partition(ID, index, [1, 2], leader=2) for index in many))
    looks = await Turns(member).of(*(change(ID, index, leader=1) for index in many))
    led = [sum(roles.values()) for roles in looks]
    assert (led[0], led[-1]) == (0, 100)
    assert max(after - before for before, after in pairwise(led)) <= limits.ELECTIONS_AT_ONCE


async def test_a_new_topic_is_visible_only_as_a_whole_during_elections(member: ClusterBrokerDir) -> None:
    many = range(50)
    await member.publish(*START, *(partition(ID, index, [1, 2], leader=2) for index in many))
    new = (partition(NEW_ID, index, [1, 2], leader=1 + index % 2) for index in many)
    looks = await Turns(member).of(*(change(ID, index, leader=1) for index in many), TopicRecord("u", NEW_ID), *new)
    assert {sum(topic == "u" for topic, _ in roles) for roles in looks} == {0, 50}
    assert len(looks) > len(many) // limits.ELECTIONS_AT_ONCE


async def test_listeners_are_notified_of_a_deleted_topic_without_local_replicas(member: ClusterBrokerDir) -> None:
    deleted: list[bytes] = []
    member.publisher.on_deleted.append(lambda topic: deleted.append(topic.topic_id))
    await member.publish(*START, partition(ID, 0, [2, 3]))
    await member.publish(RemoveTopicRecord(ID))
    assert deleted == [ID]


async def test_coordinators_are_notified_of_every_leadership_change(member: ClusterBrokerDir) -> None:
    heard: list[tuple[object, ...]] = []
    member.publisher.on_election.append(lambda *given: heard.append(("elected", *given)))
    member.publisher.on_resignation.append(lambda *given: heard.append(("resigned", *given)))
    await member.publish(*START, partition(ID, 0, [1, 2], epoch=4), partition(ID, 1, [2, 1]))
    assert heard == [("elected", "t", 0, 4), ("resigned", "t", 1, 0)]
    heard.clear()
    await member.publish(change(ID, 0, isr=[1]))
    assert heard == [], "no leadership has begun"
    await member.publish(change(ID, 0, leader=2), change(ID, 1, leader=1))
    assert heard == [("elected", "t", 1, 1), ("resigned", "t", 0, 5)]
    heard.clear()
    await member.publish(RemoveTopicRecord(ID))
    assert heard == [("resigned", "t", 0, None), ("resigned", "t", 1, None)]


async def test_leaders_know_every_brokers_current_registration(member: ClusterBrokerDir) -> None:
    await member.publish(level(30), broker(1, epoch=5), broker(2, epoch=6, fenced=True))
    assert member.brokers.liveness == {1: BrokerLiveness(5), 2: BrokerLiveness(6, fenced=True)}
    await member.publish(
        BrokerRegistrationChangeRecord(2, 6, fenced=-1),
        BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1),
    )
    assert member.brokers.liveness == {1: BrokerLiveness(5, shutting_down=True), 2: BrokerLiveness(6)}
    await member.publish(UnregisterBrokerRecord(2, 6))
    assert list(member.brokers.liveness) == [1]


async def test_topic_configs_reach_open_and_later_logs(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [1, 2]), ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "7"))
    await member.publish(ConfigRecord(ResourceType.BROKER, "", "message.max.bytes", "99"), partition(ID, 1, [2, 1]))
    for index in range(2):
        config = member.partitions.get("t", index).log.config
        assert (config.retention_ms, config.max_message_bytes) == (7, 99)


async def test_an_invalid_replication_quota_is_ignored_and_blocks_no_other_setting(member: ClusterBrokerDir) -> None:
    invalid = ConfigRecord(ResourceType.BROKER, "", "leader.replication.throttled.rate", "fast")
    await member.publish(*START, partition(ID, 0, [1, 2]), invalid, ConfigRecord(ResourceType.BROKER, "", FOLLOWERS_RATE, "5"))
    assert member.throttles.leader.rate == NO_LIMIT
    assert member.throttles.follower.rate == 5
    await member.publish(
        ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "7"), ConfigRecord(ResourceType.BROKER, "1", FOLLOWERS_RATE, "x")
    )
    assert member.partitions.get("t", 0).log.config.retention_ms == 7
    assert member.throttles.follower.rate == 5, "the invalid value of this broker hides that of all brokers"


async def test_listeners_are_notified_of_changed_client_metrics_subscriptions(member: ClusterBrokerDir) -> None:
    heard: list[tuple[str, dict[str, str]]] = []
    configs = member.catalog.configs
    member.publisher.on_subscriptions.append(lambda name: heard.append((name, dict(configs(ResourceType.CLIENT_METRICS, name)))))
    await member.publish(*START)
    await member.publish(
        ConfigRecord(ResourceType.CLIENT_METRICS, "s", "metrics", "a"), ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "1")
    )
    await member.publish(ConfigRecord(ResourceType.CLIENT_METRICS, "s", "metrics", None))
    assert heard == [("s", {"metrics": "a"}), ("s", {})]


async def test_a_log_that_the_first_image_lacks_is_renamed_stray_and_kept(tmp_path: Path) -> None:
    member = ClusterBrokerDir(tmp_path)
    await member.publish(*START, *(partition(ID, index, [1, 2]) for index in range(3)))
    for index in range(3):
        member.partitions.get("t", index).append_records([SimpleRecord(None, b"x")])
    member.close()
    (tmp_path / "t-2" / "partition.metadata").unlink()
    again = ClusterBrokerDir(tmp_path)
    await again.publish(*START, partition(ID, 0, [2, 1]), partition(ID, 1, [2, 3]), partition(ID, 2, [2, 1]))
    assert sorted(again.roles()) == [("t", 0), ("t", 2)]
    strays = sorted(path.name.rpartition(".")[0] for path in tmp_path.iterdir() if path.name.endswith("-stray"))
    assert strays == ["t-1", "t-2"]
    again.close()


async def test_the_metadata_log_without_partition_metadata_is_not_stray(tmp_path: Path) -> None:
    member = ClusterBrokerDir(tmp_path)
    member.log_dir.create_log("__cluster_metadata", 0, METADATA_TOPIC_ID, LogConfig(), at_once=True)
    member.close()
    (tmp_path / "__cluster_metadata-0" / "partition.metadata").write_bytes(b"")
    again = ClusterBrokerDir(tmp_path)
    await again.publish(*START)
    assert again.log_dir.logs["__cluster_metadata", 0].failure is None
    again.close()


async def test_an_existing_log_continues_at_its_end(tmp_path: Path) -> None:
    member = ClusterBrokerDir(tmp_path)
    await member.publish(*START, partition(ID, 0, [1]))
    member.partitions.get("t", 0).append_records([SimpleRecord(None, b"x")])
    end = member.partitions.get("t", 0).log.log_end_offset
    member.close()
    again = ClusterBrokerDir(tmp_path)
    await again.publish(*START, partition(ID, 0, [1], epoch=3))
    found = again.partitions.get("t", 0)
    assert (found.leader_epoch, found.log.log_end_offset) == (3, end)
    again.close()


async def test_a_partition_with_a_disk_error_is_offline_and_blocks_no_other(tmp_path: Path) -> None:
    files = MemoryFiles()
    member = ClusterBrokerDir(tmp_path, files=files)

    await member.publish(*START)
    files.make_dir(tmp_path / "t-0")  # somebody else's
    files.write(tmp_path / "t-0" / "one.jpg", b"", sync=False)
    await member.publish(partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]))
    assert member.roles() == {("t", 1): False}
    with pytest.raises(Rejected) as refused:
        member.partitions.get("t", 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files.remove_tree(tmp_path / "t-0")
    await member.publish(change(ID, 0, leader=2), change(ID, 1, leader=1))
    assert member.roles() == {("t", 1): True}
    member.close()


async def test_waiting_requests_of_a_removed_replica_or_topic_are_failed(member: ClusterBrokerDir) -> None:
    await member.publish(*START, partition(ID, 0, [1, 2]), partition(ID, 1, [1, 2]))
    waits = []
    for index in range(2):
        led = member.partitions.get("t", index)
        waits.append(led.when(Condition.REPLICATED, led.append_records([SimpleRecord(None, b"x")])))
    await member.publish(change(ID, 0, replicas=[2, 3], isr=[2], leader=2))
    await member.publish(RemoveTopicRecord(ID))
    assert [wait.exception().code for wait in waits] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_bug_in_one_step_does_not_stop_the_others(member: ClusterBrokerDir, caplog: pytest.LogCaptureFixture) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    heard: list[str] = []
    for hooks in (member.publisher.on_election, member.publisher.on_resignation, member.publisher.on_deleted):
        hooks += [bug, lambda *_: heard.append("told")]
    await member.publish(*START, partition(ID, 0, [1, 2]), partition(ID, 1, [2, 1]))
    await member.publish(ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "7"), change(ID, 1, leader=1))
    assert member.partitions.get("t", 0).log.config.retention_ms == 7
    await member.publish(RemoveTopicRecord(ID))
    assert len(heard) == 2 + 1 + 3, "elections and resignations, an election, the end of both replicas and of their topic"
    assert caplog.text.count("notifying components of a change failed") == 1


async def test_a_bug_in_leading_one_partition_leaves_the_others_their_leaders(
    member: ClusterBrokerDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    await member.publish(*START, partition(ID, 0, [2, 1]), partition(ID, 1, [2, 1]))
    monkeypatch.setattr(member.partitions.get("t", 0).log, "become_leader", bug)
    await member.publish(change(ID, 0, leader=1), change(ID, 1, leader=1))
    assert member.roles() == {("t", 0): False, ("t", 1): True}
