"""A cluster in the test's own process, and the faults that a test can inject."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.process import StartError
from ottla.broker.testing.cluster import CONTROLLER, InProcessCluster
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.cluster_produce import produce_to


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster() as running:
        running.topics.create("t")
        yield running


def others(cluster: InProcessCluster, *numbers: int) -> list[int]:
    return [number for number in cluster.brokers if number not in numbers]


def test_every_broker_returns_the_whole_clusters_metadata(cluster: InProcessCluster) -> None:
    ports = {broker.port for broker in cluster.brokers.values()}
    assert cluster.bootstrap.split(",") == [broker.bootstrap for broker in cluster.brokers.values()]
    assert cluster.client_properties["bootstrap.servers"] == cluster.bootstrap
    with Client("127.0.0.1", cluster.brokers[2].port) as client:
        response = client.call(MetadataRequest(topics=None))
    assert {broker.port for broker in response.brokers} == ports
    assert sorted(response.topics[0].partitions[0].replica_nodes) == [1, 2, 3]


def test_acks_all_record_survives_the_leader_and_is_replicated_to_it_after_its_restart(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    assert produce_to(cluster.brokers[leader], b"a").base_offset == 0
    cluster.kill(leader)
    cluster.clock.advance(10)
    after = cluster.wait_until_led("t")
    assert after != leader
    assert cluster.topics.end_offset("t") == 1
    assert produce_to(cluster.brokers[after], b"b").base_offset == 1
    cluster.restart(leader)
    cluster.wait_in_sync("t")
    assert cluster.in_sync_of("t") == [1, 2, 3]
    assert cluster.brokers[leader].topics.end_offset("t") == 2


def test_killed_leader_is_replaced_without_advancing_the_clock(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.kill(leader)
    cluster.wait_until(lambda: cluster.leader_of("t") != leader, "another broker leads")


def test_fenced_broker_leads_nothing_and_rejoins_after_its_next_heartbeat(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.isolate_from_controller(leader)
    before = cluster.clock.now_ms()
    cluster.fence(leader)
    assert cluster.leader_of("t") in others(cluster, leader)
    assert cluster.clock.now_ms() - before < 60_000, "no clock was moved"
    assert cluster.is_cut
    cluster.heal()
    cluster.wait_in_sync("t")
    assert (cluster.in_sync_of("t"), cluster.is_cut) == ([1, 2, 3], False)


def test_restart_keeps_the_port_and_moves_leadership_first(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    port = cluster.brokers[leader].port
    cluster.restart(leader)
    assert (cluster.brokers[leader].port, cluster.leader_of("t") in others(cluster, leader)) == (port, True)


def test_paused_leader_is_replaced_and_rejects_requests_after_it_resumes(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    zombie = cluster.brokers[leader]
    cluster.pause(leader)
    assert cluster.up == others(cluster, leader)
    cluster.clock.advance(10)
    assert cluster.wait_until_led("t") != leader
    cluster.resume(leader)
    assert zombie.clock.now_ms() >= cluster.clock.now_ms() - 1_000
    cluster.wait_in_sync("t")
    cluster.wait_until(lambda: not zombie.call(lambda node: node.services.partitions.get("t", 0).leads), "it knows")
    assert produce_to(zombie, b"x", acks=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_partitioned_follower_leaves_the_isr_and_rejoins_after_healing(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    follower, _ = others(cluster, leader)
    cluster.partition({follower}, others(cluster, follower))
    assert produce_to(cluster.brokers[leader], b"a").error_code == ErrorCode.NONE
    assert follower not in cluster.in_sync_of("t")
    assert follower in cluster.reaching_controller
    cluster.heal()
    cluster.wait_in_sync("t")
    assert cluster.in_sync_of("t") == [1, 2, 3]


def test_leader_isolated_from_the_controller_is_replaced_and_cannot_acknowledge(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.isolate_from_controller(leader)
    assert cluster.reaching_controller == others(cluster, leader)
    cluster.clock.advance(10)
    assert cluster.leader_of("t") in others(cluster, leader)
    refused = produce_to(cluster.brokers[leader], b"x", timeout_ms=300)
    assert refused.error_code in {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    cluster.heal()
    cluster.wait_in_sync("t")
    assert cluster.topics.end_offset("t") == 0


def test_slow_link_delays_replication(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    for other in others(cluster, leader):
        cluster.slow_link(leader, other, 60)
    began = cluster.controller.clock.mono_ms()
    assert produce_to(cluster.brokers[leader], b"a").error_code == ErrorCode.NONE
    assert cluster.controller.clock.mono_ms() - began >= 60


def test_brokers_serve_while_the_controller_is_killed(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.controller.kill()
    assert produce_to(cluster.brokers[leader], b"a").error_code == ErrorCode.NONE
    with pytest.raises(RuntimeError, match="the controller is not running"):
        cluster.leader_of("t")
    cluster.clock.advance(1)
    cluster.controller.start()
    cluster.wait_in_sync("t")
    assert cluster.leader_of("t") == leader


def test_fault_rules_apply_to_a_single_broker(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.brokers[leader].faults.add("error:api=Produce,code=NOT_ENOUGH_REPLICAS,times=1")
    assert produce_to(cluster.brokers[leader], b"a").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_to(cluster.brokers[leader], b"a").error_code == ErrorCode.NONE
    assert [len(broker.faults.rules) for number, broker in cluster.brokers.items() if number != leader] == [0, 0]


def test_broker_with_a_full_disk_exits_and_another_leads(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.brokers[leader].faults.add("disk-full:topic=t")
    with pytest.raises(OSError, match=r".*"):
        produce_to(cluster.brokers[leader], b"a")
    assert (cluster.brokers[leader].exit_codes, cluster.up) == ([1], others(cluster, leader))
    cluster.clock.advance(10)
    assert cluster.wait_until_led("t") != leader


def test_cluster_in_a_given_directory_stops_cleanly_and_keeps_its_data(tmp_path: Path) -> None:
    with InProcessCluster(2, tmp_path / "data", {"min.insync.replicas": 2}) as first:
        first.topics.create("t", replicas=2)
        produce_to(first.brokers[first.leader_of("t")], b"a")
    assert all((tmp_path / "data" / f"broker{number}" / ".kafka_cleanshutdown").exists() for number in (1, 2))
    with InProcessCluster(2, tmp_path / "data") as second:
        assert (second.topics.names(), second.topics.end_offset("t")) == (["t"], 1)


def test_temporary_directory_is_removed_and_ports_are_released() -> None:
    with InProcessCluster(1) as gone:
        assert gone.data_dir.is_dir()
        port = gone.brokers[1].port
    assert not gone.data_dir.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    with InProcessCluster(1) as kept:
        kept.keep()
    assert (kept.data_dir / "controller" / "meta.properties").exists()


def test_cluster_in_a_single_nodes_directory_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"")
    with pytest.raises(StartError, match="is the directory of a single node"), InProcessCluster(1, str(tmp_path)):
        pass


def test_cluster_needs_at_least_one_broker() -> None:
    with pytest.raises(ValueError, match="at least one broker, not 0"):
        InProcessCluster(0)


def test_unknown_broker_is_rejected_and_changes_nothing() -> None:
    with InProcessCluster(2) as cluster:
        for wrong in (cluster.kill, cluster.pause, cluster.restart, cluster.fence, cluster.miss, cluster.isolate_from_controller):
            with pytest.raises(KeyError, match="there is no broker 9; the brokers are 1, 2"):
                wrong(9)
        with pytest.raises(KeyError, match="there is no broker 9"):
            cluster.partition({1}, {2, 9})
        with pytest.raises(KeyError, match="there is no broker 9"):
            cluster.slow_link(1, 9, 5)
        with pytest.raises(ValueError, match="-5 ms"):
            cluster.slow_link(1, 2, -5)
        with pytest.raises(ValueError, match="at least two groups"):
            cluster.partition({1, 2})
        with pytest.raises(ValueError, match="node 1 is in two of the groups"):
            cluster.partition({1}, {1, 2})
        assert not cluster.is_cut
        with pytest.raises(KeyError, match="there is no topic 't'; existing topics: none"):
            cluster.leader_of("t")
        cluster.topics.create("t", configs={"retention.ms": 1000})
        with pytest.raises(KeyError, match="there is no partition 3 of t, which has 1"):
            cluster.leader_of("t", 3)
        cluster.controller.kill()
        with pytest.raises(RuntimeError, match="the controller is not running: start it first"):
            cluster.topics.create("other")


def test_controller_can_be_part_of_a_network_partition() -> None:
    with InProcessCluster(2) as cluster:
        cluster.partition({1}, {2, CONTROLLER})
        assert cluster.reaching_controller == [2]
        cluster.heal()
        assert cluster.reaching_controller == [1, 2]


WHAT_SERVING_IMPORTS = """
import sys
from ottla.testing import InProcessCluster
from tests.support.cluster_produce import produce_to

def ours():
    return {name for name in sys.modules if name.startswith("ottla.broker")}

with InProcessCluster() as cluster:
    before = ours()
    cluster.topics.create("t")
    produce_to(cluster.brokers[cluster.leader_of("t")], b"v")
    print(*sorted(ours() - before))
"""


def test_serving_a_cluster_imports_no_further_modules_into_the_tests_process() -> None:
    done = subprocess.run([sys.executable, "-c", WHAT_SERVING_IMPORTS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
