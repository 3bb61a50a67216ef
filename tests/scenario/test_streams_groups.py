"""Kafka Streams in streams groups (KIP-1071): each word is counted once over a kill of the broker, and over moves of the coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.streams.application import STREAMS
from ottla.broker.core.java_hash import partition_of
from ottla.testing import InProcessCluster
from tests.support.running_broker import RunningBroker
from tests.support.streams_word_count import SETTINGS, WordCount, until

OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if missing := STREAMS.missing():
        pytest.skip(missing)
    STREAMS.ensure_built()


def test_words_are_counted_once_over_a_kill_of_the_broker(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", SETTINGS) as broker:
        words = WordCount(broker.bootstrap, "words", tmp_path)
        words.write("a b a", "c a")
        with words.member() as member:
            assert member.send_command("running") == "RUNNING"
            words.check()
            words.write("a", "b")
            broker.kill()
            broker.start()
            words.write("c c", "b")
            words.check()
            until(lambda: member.send_command("tasks"), "active 0_0,0_1,1_0,1_1 standby")
            member.close()


def test_words_are_counted_once_over_a_move_and_a_crash_of_the_coordinator(tmp_path: Path) -> None:
    with InProcessCluster(settings=SETTINGS) as cluster:
        words = WordCount(cluster.bootstrap, "words", tmp_path, replicas=len(cluster.brokers))
        words.write("a b a", "c a")
        with words.member() as member:
            assert member.send_command("running") == "RUNNING"
            words.check()
            index = partition_of(words.name, len(cluster.partitions_of(OFFSETS)))
            leader = cluster.leader_of(OFFSETS, index)
            cluster.move_leader(OFFSETS, index, leader % len(cluster.brokers) + 1)
            words.write("a", "b")
            words.check()
            cluster.kill(cluster.leader_of(OFFSETS, index))
            words.write("c c", "b")
            words.check()
            until(lambda: member.send_command("tasks"), "active 0_0,0_1,1_0,1_1 standby")
            member.close()
