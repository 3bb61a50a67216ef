"""Share consumers of Java, librdkafka and franz-go, and Kafka's tools of share groups: the same commands have the same results with Ottla
and with Apache Kafka.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.share_member import CLIENTS, JAVA, ShareMember
from client_compat.kafka.tools import Tools
from client_compat.matrix.clients import GO
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
NUMBERS = itertools.count()
SHORT_LOCK_MS = "2000"
LONGEST_LOCK_MS = "60000"
RENEWED_LOCK_MS = 8_000


class Harness:
    """A broker with a topic of six records in as many batches, and a group that starts with the first."""

    def __init__(self, bootstrap: str, port: int, topic: str, client: str = JAVA) -> None:
        self.bootstrap, self.port, self.topic, self.group, self.client = bootstrap, port, topic, f"of-{topic}", client
        with Client(HOST, port) as admin:
            create(admin, topic)
            configure(admin, self.group, share__auto__offset__reset="earliest")
            for value in range(6):
                produce(admin, topic, b"%d" % value)

    def member(self, acknowledgement: str = "explicit", **settings: str) -> ShareMember:
        return ShareMember(self.bootstrap, self.group, self.topic, client=self.client, acknowledgement=acknowledgement, **settings)

    def configure(self, **settings: str) -> None:
        """Set these group settings."""
        with Client(HOST, self.port) as admin:
            configure(admin, self.group, **settings)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of an Ottla broker and of Apache Kafka."""
    jars_or_skip()
    directory = tmp_path_factory.mktemp("share")
    reference = ReferenceBroker(directory / "kafka", settings=SETTINGS)
    reference.format()
    with reference, RunningBroker(directory / "ottla", SETTINGS) as ours:
        yield {"ottla": ours.port, "kafka": reference.port}


@pytest.fixture
def client() -> str:
    """The client library that runs the tests; tests with several clients parametrize it."""
    return JAVA


@pytest.fixture(params=["ottla", "kafka"])
def harness(request: pytest.FixtureRequest, ports: dict[str, int], client: str) -> Harness:
    """A topic and group for one test, on the broker that it is parametrized with."""
    if client == "franz-go" and (missing := GO.missing()):
        pytest.skip(missing)
    port = ports[request.param]
    return Harness(f"{HOST}:{port}", port, f"{request.node.originalname.removeprefix('test_')[:40]}-{next(NUMBERS)}", client)


every_client = pytest.mark.parametrize("client", CLIENTS)


ALL = "0:0:1 1:1:1 2:2:1 3:3:1 4:4:1 5:5:1"


def everything(member: ShareMember, count: int = 6) -> list[str]:
    """Poll until `count` records are there: one poll may return only the records that one fetch has acquired."""
    found: list[str] = []
    while len(found) < count:
        answer = member.send_command("poll")
        assert answer != "nothing", found
        found += answer.split()
    return found


@every_client
def test_explicit_acknowledgements_accept_release_and_reject(harness: Harness) -> None:
    with harness.member() as member:
        assert everything(member) == ALL.split()
        assert [member.send_command(command) for command in ("accept 0 1 5", "release 2 4", "reject 3", "commit")] == [
            "done",
            "done",
            "done",
            "ok",
        ]
        assert everything(member, 2) == ["2:2:2", "4:4:2"]
        assert [member.send_command("accept 2 4"), member.send_command("commit")] == ["done", "ok"]
        assert member.send_command("poll 1500") == "nothing"
        member.close()


@every_client
def test_implicit_acknowledgement_accepts_the_previously_polled_records(harness: Harness) -> None:
    with harness.member("implicit") as member:
        assert everything(member) == ALL.split()
        assert member.send_command("poll 1500") == "nothing"
        member.close()
    with harness.member("implicit") as member:
        assert member.send_command("poll 1500") == "nothing"
        member.close()


@every_client
def test_crashed_share_members_records_are_delivered_to_the_next(harness: Harness) -> None:
    with harness.member() as member:
        assert everything(member) == ALL.split()
        member.kill()
    with harness.member() as member:
        assert everything(member) == [f"{offset}:{offset}:2" for offset in range(6)]


def test_share_lock_that_is_not_renewed_expires(harness: Harness) -> None:
    harness.configure(share__record__lock__duration__ms=SHORT_LOCK_MS)
    with harness.member() as member:
        assert everything(member) == ALL.split()
        assert member.send_command("lock") == SHORT_LOCK_MS
        with harness.member() as other:
            again = [record.split(":") for record in sorted(everything(other))]
            assert [offset for offset, _, _ in again] == [str(offset) for offset in range(6)]
            assert all(int(count) >= 2 for _, _, count in again)  # a busy machine may let several locks expire
        assert member.send_command("accept 0 1 2 3 4 5") == "done"
        assert member.send_command("commit") == "InvalidRecordStateException"


@pytest.mark.parametrize("client", [JAVA, "franz-go"])
def test_renewed_share_lock_keeps_the_records_beyond_its_first_expiry(harness: Harness) -> None:
    harness.configure(share__record__lock__duration__ms=str(RENEWED_LOCK_MS))
    with harness.member() as member:
        assert everything(member) == ALL.split()
        with harness.member() as other:
            assert other.send_command("commit") == "nothing", "it has started"
            for _ in range(3):
                assert [member.send_command("renew 0 1 2 3 4 5"), member.send_command("commit")] == ["done", "ok"]
                assert other.send_command(f"poll {RENEWED_LOCK_MS * 2 // 5}") == "nothing"
                if harness.client == JAVA:
                    assert member.send_command("poll") == ALL  # its client gives renewed records to the program again
            assert [member.send_command("release 0 1 2 3 4 5"), member.send_command("commit")] == ["done", "ok"]
            again = other.send_command("poll 5000")
            if again == "nothing":  # a fetch that the member itself had sent got them
                again = member.send_command("poll")
            assert again.split() == [f"{offset}:{offset}:2" for offset in range(6)]


@pytest.mark.parametrize("mode", ["auto", "sync"])
def test_the_verifiable_share_consumer_acknowledges_what_it_consumes(harness: Harness, tools: Tools, mode: str) -> None:
    options = ("--topic", harness.topic, "--group-id", f"{harness.topic}-{mode}", "--offset-reset-strategy", "earliest")
    command = (*options, "--max-messages", "6", "--acknowledgement-mode", mode)
    events = [json.loads(line) for line in run(tools, harness, "kafka-verifiable-share-consumer", *command).splitlines()]
    for name in ("records_consumed", "offsets_acknowledged"):
        assert sum(event["count"] for event in events if event["name"] == name) == 6, events
    assert all(event["success"] for event in events if event["name"] == "offsets_acknowledged")
    assert "shutdown_complete" in {event["name"] for event in events}


def test_the_share_groups_tool_describes_resets_and_deletes_a_group(harness: Harness, tools: Tools) -> None:
    def share_groups(*arguments: str) -> str:
        return run(tools, harness, "kafka-share-groups", *arguments)

    def described() -> tuple[str, str]:
        (offsets,) = table(share_groups("--describe", *of_group, "--offsets"), "GROUP")
        return offsets["START-OFFSET"], offsets["LAG"]

    of_group = ("--group", harness.group)
    harness.configure(share__record__lock__duration__ms=LONGEST_LOCK_MS)  # a lock's expiry writes the state, too
    with harness.member() as member:
        assert everything(member) == ALL.split()
        assert [member.send_command("accept 0 1 2"), member.send_command("release 3 4 5"), member.send_command("commit")] == [
            "done",
            "done",
            "ok",
        ]
        assert described() == ("0", "3"), "the start offset as of the last write, which accepted the records"
        (state,) = table(share_groups("--describe", *of_group, "--state").replace("COORDINATOR (ID)", "ADDRESS ID"), "GROUP")
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
        (one,) = table(share_groups("--describe", *of_group, "--members"), "GROUP")
        assert one["ASSIGNMENT"] == f"{harness.topic}:0"
        assert [record[0] for record in everything(member, 3)] == ["3", "4", "5"]
        member.close()  # releases them, which is the next write
    assert described() == ("3", "3")
    (reset,) = table(share_groups("--reset-offsets", *of_group, "--topic", harness.topic, "--to-earliest", "--execute"), "GROUP")
    assert reset["NEW-OFFSET"] == "0"
    with harness.member() as member:
        assert everything(member) == ALL.split()
        member.close()
    assert "Successful" in share_groups("--delete-offsets", *of_group, "--topic", harness.topic)
    assert "successful" in share_groups("--delete", *of_group)
    assert harness.group not in share_groups("--list").split()


def test_console_share_consumer_reads_and_the_share_groups_tool_describes_the_group(harness: Harness, tools: Tools) -> None:
    command = ("--topic", harness.topic, "--group", harness.group, "--max-messages", "6", "--timeout-ms", "20000")
    read = good(tools.run("kafka-console-share-consumer", "--bootstrap-server", harness.bootstrap, *command))
    assert read.split() == ["0", "1", "2", "3", "4", "5"]
    (offsets,) = table(run(tools, harness, "kafka-share-groups", "--describe", "--group", harness.group, "--offsets"), "GROUP")
    assert (offsets["TOPIC"], offsets["PARTITION"], offsets["LAG"]) == (harness.topic, "0", "0")
    assert harness.group in run(tools, harness, "kafka-share-groups", "--list").split()


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


def test_advancing_the_clock_expires_share_locks_and_a_restart_keeps_the_state(tmp_path: Path) -> None:
    jars_or_skip()
    with RunningBroker(tmp_path / "data", clock=MovableClock()) as broker:
        harness = Harness(broker.bootstrap, broker.port, "clock")
        with harness.member() as member:
            assert everything(member) == ALL.split()
            assert [member.send_command("accept 0 1 2"), member.send_command("commit")] == ["done", "ok"]
            member.pause()
            with harness.member() as other:
                broker.clock.advance(30)
                first = other.send_command("poll")
                if first == "nothing":  # a fetch that the paused member had sent got the records: its locks expire, too
                    broker.clock.advance(30)
                    first = other.send_command("poll")
                redelivered = first.split()
                redelivered += everything(other, 3 - len(redelivered))
                assert redelivered in [[f"{offset}:{offset}:{count}" for offset in (3, 4, 5)] for count in (2, 3)]
                assert [other.send_command("accept 3 4"), other.send_command("release 5"), other.send_command("commit")] == [
                    "done",
                    "done",
                    "ok",
                ]
        broker.kill()
        broker.start()
        with harness.member() as member:
            assert member.send_command("poll").split()[0].startswith("5:5:")
