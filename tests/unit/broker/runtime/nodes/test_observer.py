"""The metadata observer against a quorum in memory; against Apache Kafka: tests/scenario/test_kafka_metadata.py."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.runtime.nodes.link import Node
from tests.support.observer_harness import ObserverHarness
from tests.support.simulation import settle


@pytest.fixture
async def harness() -> ObserverHarness:
    made = ObserverHarness()
    made.quorum.elect(1)
    made.quorum.commit()
    return made


async def test_a_new_observer_finds_the_leader_and_publishes_the_whole_image_first(harness: ObserverHarness) -> None:
    harness.quorum.put("a", "1")
    harness.quorum.commit()
    notified: list[Node | None] = []
    harness.observer.on_controller = lambda: notified.append(harness.observer.controller)
    harness.observer.start()
    assert harness.observer.controller is None
    await harness.pass_time(40)
    (first,) = harness.published
    assert first.image == harness.quorum.image(3)
    assert (first.provenance.offset, harness.observer.applied_offset, harness.observer.end_offset) == (2, 2, 3)
    assert harness.observer.controller == Node(1, "c1", 9093)
    assert notified[-1:] == [Node(1, "c1", 9093)]
    assert harness.log_bytes == harness.quorum.committed_bytes(0, 3)
    harness.quorum.put("a", "2")
    harness.quorum.commit()
    await settle()
    assert harness.published[-1].changes.configs == {(2, "topic"): {"a": "2"}}
    await harness.nursery.stop()
    assert harness.failures == []


async def test_uncommitted_records_are_written_and_not_published(harness: ObserverHarness) -> None:
    harness.observer.start()
    await harness.pass_time(40)
    harness.quorum.put("a", "1")
    await settle()
    assert (harness.observer.end_offset, harness.observer.applied_offset) == (3, 1)
    await harness.nursery.stop()


async def test_nothing_is_published_before_the_observer_has_reached_the_high_watermark(harness: ObserverHarness) -> None:
    for n in range(20):
        harness.quorum.put("a", str(n))
    harness.quorum.commit()
    harness.quorum.fetch_bytes = 200
    harness.observer.start()
    await harness.pass_time(100)
    assert len(harness.published) == 1
    assert harness.published[0].image == harness.quorum.image(harness.quorum.high_watermark)
    await harness.nursery.stop()


async def test_nothing_is_published_of_a_log_without_controller_records(harness: ObserverHarness) -> None:
    quorum = harness.quorum
    for member in quorum.members.values():
        member.entries = member.entries[:1]
    quorum.high_watermark = quorum.leader.high_watermark = 1
    harness.observer.start()
    await harness.pass_time(40)
    assert (harness.published, harness.observer.high_watermark) == ([], 1)
    quorum.put("a", "1")
    quorum.commit()
    await settle()
    assert len(harness.published) == 1
    await harness.nursery.stop()


async def test_a_log_that_diverges_from_the_new_leader_is_truncated_and_continues(harness: ObserverHarness) -> None:
    quorum = harness.quorum
    harness.observer.start()
    await harness.pass_time(40)
    quorum.put("lost", "1")
    await settle()
    assert harness.observer.end_offset == 3
    quorum.members[1].is_up = False
    quorum.elect(2)
    quorum.put("kept", "1")
    quorum.replicate(3)
    await harness.pass_time(2_100)
    assert harness.observer.controller == Node(2, "c2", 9093)
    assert harness.checkpoints == [2], "the lowered recovery point is written before the log grows"
    assert harness.log_bytes == quorum.committed_bytes(0, quorum.high_watermark)
    assert harness.published[-1].image.configs == {(2, "topic"): {"kept": "1"}}
    await harness.nursery.stop()


async def test_a_leader_without_committed_records_stops_the_broker(harness: ObserverHarness) -> None:
    harness.quorum.put("a", "1")
    harness.quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    for member in harness.quorum.members.values():
        member.entries = member.entries[:2]
    harness.quorum.elect(2)
    await harness.pass_time(600)
    assert "below the high watermark 3" in str(harness.failures[0])
    await harness.nursery.stop()
    assert len(harness.failures) == 1


async def test_an_unknown_record_type_stops_the_broker(harness: ObserverHarness) -> None:
    harness.observer.start()
    await harness.pass_time(40)
    harness.quorum.leader.append_value(1, b"\x01\x7f\x00")
    harness.quorum.commit()
    await settle()
    assert "kind 127" in str(harness.failures[0])
    assert harness.observer.applied_offset == 1
    await harness.nursery.stop()
    assert len(harness.failures) == 1


async def test_an_observer_continues_its_log_after_a_clean_stop_and_after_a_kill(harness: ObserverHarness) -> None:
    harness.quorum.put("a", "1")
    harness.quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    for clean in (True, False):
        harness.quorum.requests.clear()
        await harness.restart(clean=clean)
        await harness.pass_time(40)
        assert harness.quorum.requests[0][1].topics[0].partitions[0].fetch_offset == harness.quorum.high_watermark
        assert harness.published[-1].image == harness.quorum.image(harness.quorum.high_watermark)
        assert harness.published[-1].changes.configs == {(2, "topic"): {"a": "1"}}
    await harness.nursery.stop()
    assert harness.failures == []


async def test_a_late_observer_fetches_a_snapshot_in_parts_and_then_the_log(harness: ObserverHarness) -> None:
    quorum = harness.quorum
    for n in range(30):
        quorum.put(f"k{n}", "x" * 30)
    quorum.commit()
    made = quorum.snapshot(drop_log=True)
    quorum.put("after", "1")
    quorum.commit()
    quorum.snapshot_bytes = 100
    harness.observer.start()
    await harness.pass_time(100)
    assert harness.published[-1].image == quorum.image(quorum.high_watermark)
    assert harness.log.log_start_offset == made.end_offset
    assert harness.log_bytes == quorum.committed_bytes(made.end_offset, quorum.high_watermark)
    assert harness.files.read_bytes(harness.directory / made.file_name) == quorum.leader.snapshots[made]
    assert not [entry for entry in harness.files.scan(harness.directory) if entry.name.endswith(".part")]
    await harness.restart()
    await harness.pass_time(40)
    assert harness.published[-1].image == quorum.image(quorum.high_watermark)
    await harness.nursery.stop()
    assert harness.failures == []


async def test_snapshot_removes_entries_that_it_does_not_contain(harness: ObserverHarness) -> None:
    quorum = harness.quorum
    quorum.put("a", "1")
    quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    await harness.nursery.stop()
    quorum.put("b", "1")
    quorum.unset("a")
    quorum.commit()
    quorum.snapshot(drop_log=True)
    await harness.restart()
    await harness.pass_time(100)
    assert harness.published[-1].image.configs == {(2, "topic"): {"b": "1"}}
    await harness.nursery.stop()
    assert harness.failures == []


async def test_a_deleted_snapshot_is_replaced_by_the_newer_one_during_the_fetch(harness: ObserverHarness) -> None:
    quorum = harness.quorum
    quorum.put("a", "1" * 100)
    quorum.commit()
    older = quorum.snapshot(drop_log=True)
    quorum.snapshot_bytes = 50
    harness.observer.start()
    await harness.until(lambda: harness.files.exists(harness.directory / (older.file_name + ".part")))
    quorum.put("a", "2")
    quorum.commit()
    newer = quorum.snapshot(drop_log=True)
    del quorum.leader.snapshots[older]
    await harness.pass_time(100)
    names = [entry.name for entry in harness.files.scan(harness.directory)]
    assert newer.file_name in names
    assert older.file_name + ".part" not in names
    assert harness.published[-1].image.configs == {(2, "topic"): {"a": "2"}}
    await harness.nursery.stop()


async def test_a_start_removes_partial_snapshots_and_uses_one_that_is_ahead_of_the_log(
    harness: ObserverHarness,
) -> None:
    quorum = harness.quorum
    quorum.put("a", "1")
    quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    await harness.nursery.stop()
    quorum.put("a", "2")
    quorum.commit()
    made = quorum.snapshot(drop_log=True)
    harness.files.write(harness.directory / made.file_name, quorum.leader.snapshots[made], sync=True)
    harness.files.write(harness.directory / (SnapshotId(9, 1).file_name + ".part"), b"x", sync=True)
    quorum.requests.clear()
    await harness.restart(clean=False)
    await harness.pass_time(40)
    assert quorum.requests[0][1].topics[0].partitions[0].fetch_offset == made.end_offset
    assert harness.published[-1].image.configs == {(2, "topic"): {"a": "2"}}
    assert not [entry for entry in harness.files.scan(harness.directory) if entry.name.endswith(".part")]
    await harness.nursery.stop()
    assert harness.failures == []


async def test_an_epoch_is_stored_and_used_after_a_restart(harness: ObserverHarness) -> None:
    harness.observer.start()
    await harness.pass_time(40)
    content = b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    assert harness.files.read_bytes(harness.directory / "quorum-state") == content
    harness.quorum.requests.clear()
    await harness.restart()
    await harness.pass_time(40)
    assert {request.topics[0].partitions[0].current_leader_epoch for _, request in harness.quorum.requests} == {1}
    await harness.nursery.stop()


async def test_configured_voters_are_asked_and_after_a_restart_the_known_leader_first(harness: ObserverHarness) -> None:
    harness.bootstrap = [member.node for member in harness.quorum.members.values()]
    await harness.restart()
    await harness.pass_time(40)
    harness.quorum.requests.clear()
    await harness.restart()
    await settle()
    assert {node for node, _ in harness.quorum.requests} == {1}
    assert harness.observer.controller == Node(1, "c1", 9093)
    await harness.nursery.stop()


async def test_a_slow_publication_does_not_block_fetching(harness: ObserverHarness) -> None:
    held = asyncio.Event()
    heard = harness.heard

    async def wait(published: object) -> None:
        await heard(published)
        await held.wait()

    harness.heard = wait
    await harness.restart()
    await harness.pass_time(40)
    harness.quorum.members[1].is_up = False
    harness.quorum.elect(2)
    harness.quorum.replicate(3)
    await harness.pass_time(2_100)
    assert harness.observer.controller == Node(2, "c2", 9093)
    assert (len(harness.published), harness.observer.applied_offset) == (1, -1)
    held.set()
    await settle()
    assert harness.observer.applied_offset == harness.quorum.high_watermark - 1
    await harness.nursery.stop()


async def test_a_restart_without_bootstrap_servers_uses_the_voters_in_its_log(
    harness: ObserverHarness,
) -> None:
    harness.quorum.leader.append_voters(1, *(member.node for member in harness.quorum.members.values()))
    harness.quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    harness.bootstrap = [Node(-1, "gone", 1)]
    await harness.restart()
    harness.quorum.put("a", "1")
    harness.quorum.commit()
    await harness.pass_time(40)
    assert harness.published[-1].image.configs == {(2, "topic"): {"a": "1"}}
    await harness.nursery.stop()
