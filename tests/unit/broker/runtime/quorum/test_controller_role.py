from __future__ import annotations

from random import Random

import pytest

from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.sim.loop import SimLoop
from ottla.broker.sim.sim_cluster import SimCluster, run, sleep, until
from ottla.broker.storage.checkpoint_file import RECOVERY_POINT, decode_offsets
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import CONTROLLER, DIRECTORY, OwnedCluster, run_owned


async def create(cluster: OwnedCluster, *replicas: int) -> None:
    assignment = [CreatableReplicaAssignment(0, list(replicas))]
    answer = await cluster.ask(replicas[-1], CreateTopicsRequest([CreatableTopic("t", -1, -1, assignment)]))
    assert [each.error_code for each in answer.topics] == [0]
    await cluster.until(lambda: all(member.knows("t") for member in cluster.members.values()), "all know the topic")


@played_by(run_owned, 2, controller={"broker.session.timeout.ms": "5000"})
async def test_a_broker_is_fenced_when_its_session_expires(cluster: OwnedCluster) -> None:
    cluster.members[2].crash()
    await cluster.pass_ms(3_000)
    assert not cluster.controller_host.image.brokers[2].fenced
    await cluster.pass_ms(3_500)
    assert [node for node, broker in cluster.controller_host.image.brokers.items() if broker.fenced] == [2]


def fenced_from_now_on(cluster: OwnedCluster) -> set[int]:
    """Return a set to which each broker that is fenced from now on is added."""
    fenced: set[int] = set()

    def look(published: Published) -> None:
        fenced.update(node for node, broker in published.image.brokers.items() if broker.fenced)

    cluster.controller_host.running.role.followers.append(look)
    return fenced


@played_by(run_owned, 3, controller={"broker.session.timeout.ms": "5000"})
async def test_an_event_loop_stall_longer_than_a_session_fences_no_broker(cluster: OwnedCluster) -> None:
    fenced = fenced_from_now_on(cluster)
    for stalled_ms in 5_001, 30_000, 200_000:
        await cluster.stall(stalled_ms)
        await cluster.pass_ms(6_000)
    assert fenced == set()


@played_by(run_owned, 3, controller={"broker.session.timeout.ms": "5000"})
async def test_repeated_event_loop_stalls_fence_only_a_silent_broker(cluster: OwnedCluster) -> None:
    fenced = fenced_from_now_on(cluster)
    cluster.members[2].crash()
    for _ in range(12):
        await cluster.stall(2_500)
        await cluster.pass_ms(10)
    await cluster.pass_ms(6_000)
    assert fenced == {2}


def test_a_slow_disk_of_the_controller_extends_no_session() -> None:
    loop = SimLoop()
    cluster = SimCluster(loop, Random(1), broker_session_timeout_ms="6000", broker_heartbeat_interval_ms="1000")

    def is_fenced(node: int) -> bool:
        return cluster.image.brokers[node].fenced

    async def body() -> None:
        cluster.start()
        assert await until(loop, cluster.all_serve, 20_000)
        cluster.controller.sync_us = (2_000_000, 2_000_000)
        cluster.nodes[1].kill()
        await sleep(loop, 3_000)
        cluster.nodes[2].kill()
        assert await until(loop, lambda: is_fenced(1), 15_000)
        # The second session ended while the first fencing was committed: the next scan finds it, and its commit takes as long.
        assert await until(loop, lambda: is_fenced(2), 6_000)
        assert not is_fenced(3)

    run(loop, body())


@played_by(run_owned, 2)
async def test_a_restarted_controller_gives_every_broker_a_full_session(cluster: OwnedCluster) -> None:
    cluster.controller_host.crash()
    await cluster.pass_ms(60_000)
    await cluster.done(cluster.controller_host.start())
    await cluster.pass_ms(20_000)
    assert not any(broker.fenced for broker in cluster.controller_host.image.brokers.values())


@played_by(run_owned, 2, controller={"leader.imbalance.check.interval.seconds": "20"})
async def test_the_leader_rebalance_elects_the_preferred_replica(cluster: OwnedCluster) -> None:
    await create(cluster, 1, 2)
    await cluster.done(cluster.members[1].stop())
    assert cluster.controller_host.partition("t").leader == 2
    await cluster.done(cluster.members[1].start())
    await cluster.until(lambda: sorted(cluster.controller_host.partition("t").isr) == [1, 2], "both are in sync")
    await cluster.until(lambda: cluster.controller_host.partition("t").leader == 1, "the first replica leads")


def test_an_unclean_leader_is_elected_only_if_the_topic_allows_it(caplog: pytest.LogCaptureFixture) -> None:
    async def body(cluster: OwnedCluster) -> None:
        await create(cluster, 1, 2)
        cluster.members[2].crash()
        await cluster.until(lambda: cluster.controller_host.partition("t").isr == (1,), "one is alone")
        cluster.members[1].crash()
        await cluster.until(lambda: cluster.controller_host.partition("t").leader == -1, "nobody leads")
        await cluster.done(cluster.members[2].start())
        await cluster.pass_ms(30_000)
        assert cluster.controller_host.partition("t").leader == -1

    run_owned(body, 2, controller={"unclean.leader.election.interval.ms": "10000"})
    assert not any("nclean" in each for each in caplog.messages)

    async def unclean(cluster: OwnedCluster) -> None:
        await create(cluster, 1, 2)
        cluster.members[2].crash()
        await cluster.until(lambda: cluster.controller_host.partition("t").isr == (1,), "one is alone")
        cluster.members[1].crash()
        await cluster.until(lambda: cluster.controller_host.partition("t").leader == -1, "nobody leads")
        await cluster.done(cluster.members[2].start())
        await cluster.until(lambda: cluster.controller_host.partition("t").leader == 2, "who lives leads")
        epoch, logged = cluster.controller_host.partition("t").leader_epoch, [each for each in caplog.messages if "nclean" in each]
        assert logged == [
            f"Unclean election: broker 2 leads t-0 in epoch {epoch}. Records are lost that only the ISR [] or the ELR [1] had"
        ]

    run_owned(unclean, 2, controller={"unclean.leader.election.enable": "true", "unclean.leader.election.interval.ms": "10000"})


@played_by(run_owned, 2)
async def test_one_warning_names_the_partitions_that_their_last_known_leader_leads_again(
    cluster: OwnedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assignment = [CreatableReplicaAssignment(index, [1, 2]) for index in range(7)]
    await cluster.ask(1, CreateTopicsRequest([CreatableTopic("t", -1, -1, assignment)]))
    await cluster.until(lambda: all(member.knows("t") for member in cluster.members.values()), "all know the topic")
    for member in cluster.members.values():
        member.crash()
    for member in cluster.members.values():
        await cluster.done(member.start())
    await cluster.until(lambda: all(cluster.controller_host.partition("t", index).leader != -1 for index in range(7)), "all are led")
    [logged] = [each for each in caplog.messages if "last known leaders" in each]
    assert all(f"t-{index} (broker " in logged for index in range(5))
    assert " and 2 more. " in logged


@played_by(run_owned, 2)
async def test_checkpoints_limit_the_recovery_after_a_crash(cluster: OwnedCluster) -> None:
    await create(cluster, 1, 2)
    end = cluster.controller_host.running.role.voter.high_watermark
    await cluster.pass_ms(70_000)
    cluster.controller_host.crash()
    checkpoint = cluster.controller_host.files.read_bytes(DIRECTORY / RECOVERY_POINT)
    assert decode_offsets(checkpoint)["__cluster_metadata", 0] >= end
    await cluster.done(cluster.controller_host.start())


@played_by(run_owned, 2, controller={"metadata.log.max.record.bytes.between.snapshots": "1000", "metadata.max.retention.bytes": "5000"})
async def test_the_log_starts_at_a_snapshot_and_an_empty_directory_is_filled_from_it(cluster: OwnedCluster) -> None:
    await create(cluster, 1, 2)
    log = cluster.controller_host.running.role.voter.raft_log
    for _ in range(8):
        await cluster.done(cluster.members[2].stop())
        await cluster.done(cluster.members[2].start())
    await cluster.until(lambda: log.start_offset > 0, "the log begins later")
    await cluster.done(cluster.members[2].stop())
    cluster.members[2].format(cluster)
    await cluster.done(cluster.members[2].start())
    await cluster.until(lambda: cluster.members[2].knows("t"), "it has read the snapshot")
    cluster.controller_host.crash(power_loss=True)
    await cluster.done(cluster.controller_host.start())
    assert "t" in cluster.controller_host.image.topic_ids


@played_by(run_owned, 0)
async def test_a_controller_registers_itself(cluster: OwnedCluster) -> None:
    (at,) = cluster.controller_host.image.controllers[CONTROLLER].listeners.values()
    assert (at.name, at.host, at.port) == ("CONTROLLER", "c3000", 9093)


@played_by(run_owned, 1)
async def test_an_idle_controller_writes_nothing(cluster: OwnedCluster) -> None:
    voter = cluster.controller_host.running.role.voter
    end_offset = voter.end_offset
    await cluster.pass_ms(600_000)
    assert voter.end_offset == end_offset
