"""The metadata observer against a quorum in memory; against Apache Kafka: tests/scenario/test_kafka_metadata.py."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.runtime.nodes.link import Node
from tests.support.observer_scene import ObserverScene
from tests.support.simulation import settle


@pytest.fixture
async def scene() -> ObserverScene:
    made = ObserverScene()
    made.quorum.elect(1)
    made.quorum.commit()
    return made


async def test_a_new_observer_finds_the_leader_and_publishes_the_whole_image_first(scene: ObserverScene) -> None:
    scene.quorum.put("a", "1")
    scene.quorum.commit()
    told: list[Node | None] = []
    scene.observer.on_controller = lambda: told.append(scene.observer.controller)
    scene.observer.start()
    assert scene.observer.controller is None
    await scene.pass_time(40)
    (first,) = scene.published
    assert first.image == scene.quorum.image(3)
    assert (first.provenance.offset, scene.observer.applied_offset, scene.observer.end_offset) == (2, 2, 3)
    assert scene.observer.controller == Node(1, "c1", 9093)
    assert told[-1:] == [Node(1, "c1", 9093)]
    assert scene.log_bytes == scene.quorum.committed_bytes(0, 3)
    scene.quorum.put("a", "2")
    scene.quorum.commit()
    await settle()
    assert scene.published[-1].changes.configs == {(2, "topic"): {"a": "2"}}
    await scene.nursery.stop()
    assert scene.failures == []


async def test_uncommitted_records_are_written_and_not_published(scene: ObserverScene) -> None:
    scene.observer.start()
    await scene.pass_time(40)
    scene.quorum.put("a", "1")
    await settle()
    assert (scene.observer.end_offset, scene.observer.applied_offset) == (3, 1)
    await scene.nursery.stop()


async def test_nothing_is_published_before_the_observer_has_reached_the_high_watermark(scene: ObserverScene) -> None:
    for n in range(20):
        scene.quorum.put("a", str(n))
    scene.quorum.commit()
    scene.quorum.fetch_bytes = 200
    scene.observer.start()
    await scene.pass_time(100)
    assert len(scene.published) == 1
    assert scene.published[0].image == scene.quorum.image(scene.quorum.high_watermark)
    await scene.nursery.stop()


async def test_nothing_is_published_of_a_log_without_controller_records(scene: ObserverScene) -> None:
    quorum = scene.quorum
    for member in quorum.members.values():
        member.entries = member.entries[:1]
    quorum.high_watermark = quorum.leader.high_watermark = 1
    scene.observer.start()
    await scene.pass_time(40)
    assert (scene.published, scene.observer.high_watermark) == ([], 1)
    quorum.put("a", "1")
    quorum.commit()
    await settle()
    assert len(scene.published) == 1
    await scene.nursery.stop()


async def test_a_log_that_diverges_from_the_new_leader_is_truncated_and_continues(scene: ObserverScene) -> None:
    quorum = scene.quorum
    scene.observer.start()
    await scene.pass_time(40)
    quorum.put("lost", "1")
    await settle()
    assert scene.observer.end_offset == 3
    quorum.members[1].is_up = False
    quorum.elect(2)
    quorum.put("kept", "1")
    quorum.replicate(3)
    await scene.pass_time(2_100)
    assert scene.observer.controller == Node(2, "c2", 9093)
    assert scene.log_bytes == quorum.committed_bytes(0, quorum.high_watermark)
    assert scene.published[-1].image.configs == {(2, "topic"): {"kept": "1"}}
    await scene.nursery.stop()


async def test_a_leader_without_committed_records_stops_the_broker(scene: ObserverScene) -> None:
    scene.quorum.put("a", "1")
    scene.quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    for member in scene.quorum.members.values():
        member.entries = member.entries[:2]
    scene.quorum.elect(2)
    await scene.pass_time(600)
    assert "below the high watermark 3" in str(scene.failures[0])
    await scene.nursery.stop()
    assert len(scene.failures) == 1


async def test_an_unknown_record_type_stops_the_broker(scene: ObserverScene) -> None:
    scene.observer.start()
    await scene.pass_time(40)
    scene.quorum.leader.append_value(1, b"\x01\x7f\x00")
    scene.quorum.commit()
    await settle()
    assert "kind 127" in str(scene.failures[0])
    assert scene.observer.applied_offset == 1
    await scene.nursery.stop()
    assert len(scene.failures) == 1


async def test_an_observer_continues_its_log_after_a_clean_stop_and_after_a_kill(scene: ObserverScene) -> None:
    scene.quorum.put("a", "1")
    scene.quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    for clean in (True, False):
        scene.quorum.asked.clear()
        await scene.restart(clean=clean)
        await scene.pass_time(40)
        assert scene.quorum.asked[0][1].topics[0].partitions[0].fetch_offset == scene.quorum.high_watermark
        assert scene.published[-1].image == scene.quorum.image(scene.quorum.high_watermark)
        assert scene.published[-1].changes.configs == {(2, "topic"): {"a": "1"}}
    await scene.nursery.stop()
    assert scene.failures == []


async def test_a_late_observer_fetches_a_snapshot_in_parts_and_then_the_log(scene: ObserverScene) -> None:
    quorum = scene.quorum
    for n in range(30):
        quorum.put(f"k{n}", "x" * 30)
    quorum.commit()
    made = quorum.snapshot(drop_log=True)
    quorum.put("after", "1")
    quorum.commit()
    quorum.snapshot_bytes = 100
    scene.observer.start()
    await scene.pass_time(100)
    assert scene.published[-1].image == quorum.image(quorum.high_watermark)
    assert scene.log.log_start_offset == made.end_offset
    assert scene.log_bytes == quorum.committed_bytes(made.end_offset, quorum.high_watermark)
    assert scene.files.read_bytes(scene.directory / made.file_name) == quorum.leader.snapshots[made]
    assert not [entry for entry in scene.files.scan(scene.directory) if entry.name.endswith(".part")]
    await scene.restart()
    await scene.pass_time(40)
    assert scene.published[-1].image == quorum.image(quorum.high_watermark)
    await scene.nursery.stop()
    assert scene.failures == []


async def test_a_snapshot_removes_what_it_does_not_contain(scene: ObserverScene) -> None:
    quorum = scene.quorum
    quorum.put("a", "1")
    quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    await scene.nursery.stop()
    quorum.put("b", "1")
    quorum.unset("a")
    quorum.commit()
    quorum.snapshot(drop_log=True)
    await scene.restart()
    await scene.pass_time(100)
    assert scene.published[-1].image.configs == {(2, "topic"): {"b": "1"}}
    await scene.nursery.stop()
    assert scene.failures == []


async def test_a_deleted_snapshot_is_replaced_by_the_newer_one_during_the_fetch(scene: ObserverScene) -> None:
    quorum = scene.quorum
    quorum.put("a", "1" * 100)
    quorum.commit()
    older = quorum.snapshot(drop_log=True)
    quorum.snapshot_bytes = 50
    scene.observer.start()
    await scene.until(lambda: scene.files.exists(scene.directory / (older.file_name + ".part")))
    quorum.put("a", "2")
    quorum.commit()
    newer = quorum.snapshot(drop_log=True)
    del quorum.leader.snapshots[older]
    await scene.pass_time(100)
    names = [entry.name for entry in scene.files.scan(scene.directory)]
    assert newer.file_name in names
    assert older.file_name + ".part" not in names
    assert scene.published[-1].image.configs == {(2, "topic"): {"a": "2"}}
    await scene.nursery.stop()


async def test_a_start_removes_partial_snapshots_and_uses_one_that_is_ahead_of_the_log(
    scene: ObserverScene,
) -> None:
    quorum = scene.quorum
    quorum.put("a", "1")
    quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    await scene.nursery.stop()
    quorum.put("a", "2")
    quorum.commit()
    made = quorum.snapshot(drop_log=True)
    scene.files.write(scene.directory / made.file_name, quorum.leader.snapshots[made], sync=True)
    scene.files.write(scene.directory / (SnapshotId(9, 1).file_name + ".part"), b"x", sync=True)
    quorum.asked.clear()
    await scene.restart(clean=False)
    await scene.pass_time(40)
    assert quorum.asked[0][1].topics[0].partitions[0].fetch_offset == made.end_offset
    assert scene.published[-1].image.configs == {(2, "topic"): {"a": "2"}}
    assert not [entry for entry in scene.files.scan(scene.directory) if entry.name.endswith(".part")]
    await scene.nursery.stop()
    assert scene.failures == []


async def test_an_epoch_is_stored_and_used_after_a_restart(scene: ObserverScene) -> None:
    scene.observer.start()
    await scene.pass_time(40)
    said = b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    assert scene.files.read_bytes(scene.directory / "quorum-state") == said
    scene.quorum.asked.clear()
    await scene.restart()
    await scene.pass_time(40)
    assert {request.topics[0].partitions[0].current_leader_epoch for _, request in scene.quorum.asked} == {1}
    await scene.nursery.stop()


async def test_configured_voters_are_asked_and_after_a_restart_the_known_leader_first(scene: ObserverScene) -> None:
    scene.bootstrap = [member.node for member in scene.quorum.members.values()]
    await scene.restart()
    await scene.pass_time(40)
    scene.quorum.asked.clear()
    await scene.restart()
    await settle()
    assert {node for node, _ in scene.quorum.asked} == {1}
    assert scene.observer.controller == Node(1, "c1", 9093)
    await scene.nursery.stop()


async def test_a_slow_publication_does_not_block_fetching(scene: ObserverScene) -> None:
    held = asyncio.Event()
    heard = scene.heard

    async def wait(published: object) -> None:
        await heard(published)
        await held.wait()

    scene.heard = wait
    await scene.restart()
    await scene.pass_time(40)
    scene.quorum.members[1].is_up = False
    scene.quorum.elect(2)
    scene.quorum.replicate(3)
    await scene.pass_time(2_100)
    assert scene.observer.controller == Node(2, "c2", 9093)
    assert (len(scene.published), scene.observer.applied_offset) == (1, -1)
    held.set()
    await settle()
    assert scene.observer.applied_offset == scene.quorum.high_watermark - 1
    await scene.nursery.stop()


async def test_a_restart_without_bootstrap_servers_uses_the_voters_in_its_log(
    scene: ObserverScene,
) -> None:
    scene.quorum.leader.append_voters(1, *(member.node for member in scene.quorum.members.values()))
    scene.quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    scene.bootstrap = [Node(-1, "gone", 1)]
    await scene.restart()
    scene.quorum.put("a", "1")
    scene.quorum.commit()
    await scene.pass_time(40)
    assert scene.published[-1].image.configs == {(2, "topic"): {"a": "1"}}
    await scene.nursery.stop()
