from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.faults.rules import FaultSyntax
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.topic_calls import produce


def test_several_brokers_run_in_one_process_with_separate_ports_and_data() -> None:
    with InProcessBroker() as one, InProcessBroker() as other:
        assert one.port != other.port
        one.topics.create("mine", 3)
        assert (one.topics.names(), other.topics.names()) == (["mine"], [])
        with Client("127.0.0.1", one.port) as client:
            (topic,) = client.call(MetadataRequest(topics=None)).topics
            assert (topic.name, len(topic.partitions)) == ("mine", 3)


def test_temporary_directory_is_removed_at_the_end_unless_kept() -> None:
    with InProcessBroker() as gone:
        assert gone.data_dir.is_dir()
    assert not gone.data_dir.exists()
    with InProcessBroker() as kept:
        kept.keep()
    assert (kept.data_dir / "meta.properties").exists()


@pytest.mark.parametrize("kill", [False, True])
def test_restarted_broker_keeps_port_and_data(tmp_path: Path, kill: bool) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("t")
        with Client("127.0.0.1", broker.port) as client:
            produce(client, "t", b"x")
        port = broker.port
        broker.restart(kill=kill)
        assert (broker.port, broker.topics.end_offset("t")) == (port, 1)


def test_temporary_directory_is_removed_after_a_kill() -> None:
    with InProcessBroker() as broker:
        broker.kill()
        assert broker.data_dir.is_dir()
    assert not broker.data_dir.exists()


def test_no_temporary_directory_is_left_by_a_broker_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FaultSyntax):
        InProcessBroker(faults=["nonsense"])
    with pytest.raises(SettingsError), InProcessBroker(settings={"num.partitions": "many"}):
        pass
    InProcessBroker().stop()
    assert list(tmp_path.iterdir()) == []


def test_a_second_start_or_stop_changes_nothing() -> None:
    with InProcessBroker().start() as broker:
        broker.start().topics.create("t")
        assert broker.topics.names() == ["t"]
        broker.stop()


def test_files_are_synced_in_a_given_directory_but_not_in_a_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with InProcessBroker() as broker:
        broker.topics.create("t")
        broker.restart()
    assert synced == []
    with InProcessBroker(tmp_path / "data"):
        pass
    assert synced != []


def test_data_directory_can_be_a_string_and_faults_a_single_rule(tmp_path: Path) -> None:
    with InProcessBroker(str(tmp_path / "data"), faults="drop-ack:api=Produce", tls=True) as broker:
        assert broker.keep() == tmp_path / "data"
        assert [rule.name for rule in broker.faults.rules] == ["drop-ack-1"]


def test_client_properties_of_an_unknown_user_raise_even_without_security() -> None:
    with InProcessBroker() as broker, pytest.raises(ValueError, match="unknown user 'ann'; known users: none"):
        broker.client_properties("java", "ann")


def test_a_broker_that_was_never_started_has_no_address(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path / "data")
    for asks in (lambda: broker.bootstrap, broker.client_properties):
        with pytest.raises(RuntimeError, match="the broker has no port yet: start it first"):
            asks()
    broker.start().stop()
    assert broker.bootstrap == f"127.0.0.1:{broker.port}"


def test_settings_can_be_numbers_and_booleans() -> None:
    with InProcessBroker(settings={"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.call(lambda running: (running.settings.num_partitions, running.settings.auto_create_topics_enable)) == (3, False)


@pytest.mark.parametrize(
    "asks",
    [
        lambda broker: broker.topics.create("t"),
        lambda broker: broker.clock.advance(1),
        lambda broker: broker.faults.release(),
        InProcessBroker.kill,
    ],
)
def test_control_that_needs_a_running_broker_says_so(tmp_path: Path, asks: Callable[[InProcessBroker], object]) -> None:
    broker = InProcessBroker(tmp_path / "data")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the broker is not running: start it first"):
            asks(broker)
        broker.start().stop()


@pytest.mark.parametrize("ends", [InProcessBroker.stop, InProcessBroker.kill, InProcessBroker.restart])
def test_broker_stopped_after_a_scripted_crash_leaves_the_crashed_directory_unchanged(
    tmp_path: Path, ends: Callable[[InProcessBroker], None]
) -> None:
    broker = InProcessBroker(tmp_path / "data").start()
    broker.call(lambda _: broker.script.on_crash())
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
    ends(broker)
    assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
    if broker.running:
        broker.topics.create("t")
        broker.stop()
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()


def test_temporary_directory_survives_a_restart() -> None:
    with InProcessBroker() as broker:
        broker.topics.create("t")
        broker.restart()
        assert broker.topics.names() == ["t"]


def test_a_stop_does_not_wait_for_a_clock_that_stands_still() -> None:
    broker = InProcessBroker(clock=VirtualClock()).start()
    with Client("127.0.0.1", broker.port) as client:
        broker.topics.create("t")
        client.call(MetadataRequest(topics=None))
        broker.stop()
    assert not broker.running


WHAT_SERVING_IMPORTS = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from ottla.broker.testing import InProcessBroker

def ours():
    return {name for name in sys.modules if name.partition(".")[0] == "ottla"}

async def use(bootstrap):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t") as producer:
        async with producer.transaction():
            await producer.send("topic", b"v")
    committed = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    group = AIOKafkaConsumer("topic", bootstrap_servers=bootstrap, group_id="g", **committed)
    async with group as consumer:
        await consumer.getone()
        await consumer.commit()

with InProcessBroker() as broker:
    before = ours()
    asyncio.run(use(broker.bootstrap))
    print(*sorted(ours() - before))
"""


def test_serving_a_broker_imports_no_further_modules_into_the_tests_process() -> None:
    done = subprocess.run([sys.executable, "-c", WHAT_SERVING_IMPORTS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
