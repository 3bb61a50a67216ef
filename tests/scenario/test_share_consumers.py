"""Java's share consumer and Kafka's tools of share groups: the same commands have the same results with Ottla and with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.share_member import ShareMember
from client_compat.kafka.tools import Tools
from client_compat.support.brokers import HOST
from ottla.broker.core.clock import MovableClock
from ottla.protocol.client import Client
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import good, run, table
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import configure
from tests.support.topic_calls import create, produce

SETTINGS = {"group.share.min.record.lock.duration.ms": "1000", "group.share.heartbeat.interval.ms": "1000"}
SETTINGS |= {"group.share.min.heartbeat.interval.ms": "1000"}
SHORT_LOCK_MS = "2000"


class Scene:
    """A broker with a topic of six records in as many batches, and a group that starts with the first."""

    def __init__(self, bootstrap: str, port: int, topic: str) -> None:
        self.bootstrap, self.port, self.topic, self.group = bootstrap, port, topic, f"of-{topic}"
        with Client(HOST, port) as client:
            create(client, topic)
            configure(client, self.group, share__auto__offset__reset="earliest")
            for value in range(6):
                produce(client, topic, b"%d" % value)

    def member(self, acknowledgement: str = "explicit", **settings: str) -> ShareMember:
        return ShareMember(self.bootstrap, self.group, self.topic, acknowledgement=acknowledgement, **settings)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of an Ottla broker and of Apache Kafka."""
    jars_or_skip()
    directory = tmp_path_factory.mktemp("share")
    reference = ReferenceBroker(directory / "kafka", settings=SETTINGS)
    reference.format()
    with reference, RunningBroker(directory / "ottla", SETTINGS) as ours:
        yield {"ottla": ours.port, "kafka": reference.port}


@pytest.fixture(params=["ottla", "kafka"])
def scene(request: pytest.FixtureRequest, ports: dict[str, int]) -> Scene:
    """The topic of one test, on one of the brokers."""
    port = ports[request.param]
    return Scene(f"{HOST}:{port}", port, request.node.originalname.removeprefix("test_")[:40])


ALL = "0:0:1 1:1:1 2:2:1 3:3:1 4:4:1 5:5:1"


def everything(member: ShareMember, count: int = 6) -> list[str]:
    """Poll until `count` records are there: a poll may return what one fetch has acquired so far."""
    found: list[str] = []
    while len(found) < count:
        answer = member.say("poll")
        assert answer != "nothing", found
        found += answer.split()
    return found


def test_explicit_acknowledgements_accept_release_and_reject(scene: Scene) -> None:
    with scene.member() as member:
        assert everything(member) == ALL.split()
        assert [member.say(command) for command in ("accept 0 1 5", "release 2 4", "reject 3", "commit")] == ["done", "done", "done", "ok"]
        assert everything(member, 2) == ["2:2:2", "4:4:2"]
        assert [member.say("accept 2 4"), member.say("commit")] == ["done", "ok"]
        assert member.say("poll 1500") == "nothing"
        member.close()


def test_implicit_acknowledgements_accept_what_was_polled_before(scene: Scene) -> None:
    with scene.member("implicit") as member:
        assert everything(member) == ALL.split()
        assert member.say("poll 1500") == "nothing"
        member.close()
    with scene.member("implicit") as member:
        assert member.say("poll 1500") == "nothing"
        member.close()


def test_a_member_that_crashes_leaves_its_records_to_the_next(scene: Scene) -> None:
    with scene.member() as member:
        assert everything(member) == ALL.split()
        member.kill()
    with scene.member() as member:
        assert everything(member) == [f"{offset}:{offset}:2" for offset in range(6)]


def test_a_lock_that_is_not_renewed_expires(scene: Scene) -> None:
    with Client(HOST, scene.port) as client:
        configure(client, scene.group, share__record__lock__duration__ms=SHORT_LOCK_MS)
    with scene.member() as member:
        assert everything(member) == ALL.split()
        assert member.say("lock") == SHORT_LOCK_MS
        with scene.member() as other:
            again = [record.split(":") for record in sorted(everything(other))]
            assert [offset for offset, _, _ in again] == [str(offset) for offset in range(6)]
            assert all(int(count) >= 2 for _, _, count in again)  # a busy machine may let several locks expire
        assert member.say("accept 0 1 2 3 4 5") == "done"
        assert member.say("commit") == "InvalidRecordStateException"


def test_the_console_share_consumer_and_the_share_groups_tool_see_the_group(scene: Scene, tools: Tools) -> None:
    command = ("--topic", scene.topic, "--group", scene.group, "--max-messages", "6", "--timeout-ms", "20000")
    read = good(tools.run("kafka-console-share-consumer", "--bootstrap-server", scene.bootstrap, *command))
    assert read.split() == ["0", "1", "2", "3", "4", "5"]
    (offsets,) = table(run(tools, scene, "kafka-share-groups", "--describe", "--group", scene.group, "--offsets"), "GROUP")
    assert (offsets["TOPIC"], offsets["PARTITION"], offsets["LAG"]) == (scene.topic, "0", "0")
    assert scene.group in run(tools, scene, "kafka-share-groups", "--list").split()


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


def test_the_brokers_clock_expires_locks_and_a_restart_keeps_the_state(tmp_path: Path) -> None:
    jars_or_skip()
    with RunningBroker(tmp_path / "data", clock=MovableClock()) as broker:
        scene = Scene(broker.bootstrap, broker.port, "clock")
        with scene.member() as member:
            assert everything(member) == ALL.split()
            assert [member.say("accept 0 1 2"), member.say("commit")] == ["done", "ok"]
            member.pause()
            with scene.member() as other:
                broker.clock.advance(30)
                first = other.say("poll")
                if first == "nothing":  # a fetch that the paused member had sent got the records: its locks expire, too
                    broker.clock.advance(30)
                    first = other.say("poll")
                redelivered = first.split()
                redelivered += everything(other, 3 - len(redelivered))
                assert redelivered in [[f"{offset}:{offset}:{count}" for offset in (3, 4, 5)] for count in (2, 3)]
                assert [other.say("accept 3 4"), other.say("release 5"), other.say("commit")] == ["done", "done", "ok"]
        broker.kill()
        broker.start()
        with scene.member() as member:
            assert member.say("poll").split()[0].startswith("5:5:")
