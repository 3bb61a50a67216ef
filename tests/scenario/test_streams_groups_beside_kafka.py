"""Kafka Streams in streams groups (KIP-1071): the same applications and tools have the same results with Ottla and with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.tools import Tools
from client_compat.streams.application import STREAMS
from client_compat.streams.member import StreamsMember
from client_compat.streams.outputs import PARTITIONS
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.messages.k89_streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import good, run, table
from tests.support.running_broker import RunningBroker
from tests.support.streams_word_count import SETTINGS, WordCount, until


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of an Ottla broker and of Apache Kafka."""
    jars_or_skip()
    if missing := STREAMS.missing():
        pytest.skip(missing)
    STREAMS.ensure_built()
    directory = tmp_path_factory.mktemp("streams")
    reference = ReferenceBroker(directory / "kafka", settings=SETTINGS)
    reference.format()
    with reference, RunningBroker(directory / "ottla", SETTINGS) as ours:
        yield {"ottla": ours.bootstrap, "kafka": reference.bootstrap}


@pytest.fixture(params=["ottla", "kafka"])
def bootstrap(request: pytest.FixtureRequest, bootstraps: dict[str, str]) -> str:
    return bootstraps[request.param]


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


def test_a_standby_process_takes_over_from_a_killed_one(bootstrap: str, tmp_path: Path) -> None:
    words = WordCount(bootstrap, "standby", tmp_path)
    words.standby_replicas(1)
    words.write("a b a", "c a")
    with words.member("one", application_server="localhost:1111") as one:
        assert one.send_command("running") == "RUNNING"
        with words.member("two", application_server="localhost:2222") as two:
            until(lambda: two.send_command("tasks"), "active 0_1,1_1 standby 1_0")
            until(lambda: one.send_command("tasks"), "active 0_0,1_0 standby 1_1")
            mine = "standby-text-{0},standby-words-repartition-{0}:standby-words-repartition-{1}"
            until(lambda: one.send_command("clients"), f"1111:{mine.format(0, 1)} 2222:{mine.format(1, 0)}")
            words.check()
            one.kill()
            words.write("a", "b")
            until(lambda: two.send_command("tasks"), "active 0_0,0_1,1_0,1_1 standby")
            words.check()
            two.close()


def test_words_are_counted_once_over_a_rolling_bounce(bootstrap: str, tmp_path: Path) -> None:
    words = WordCount(bootstrap, "bounce", tmp_path)
    words.write("a b a", "c a")
    names = ("one", "two")
    members = {name: words.member(name) for name in names}
    try:
        for member in members.values():
            assert member.send_command("running") == "RUNNING"
        for name in names:
            words.write("a b", "c")
            members[name].close()
            words.write("c", "d b")
            members[name] = words.member(name)
            assert members[name].send_command("running") == "RUNNING"
        words.check()
        for member in members.values():
            member.close()
    finally:
        for member in members.values():
            member.__exit__(None, None, None)


def test_two_topics_are_joined(bootstrap: str, tmp_path: Path, tools: Tools) -> None:
    for topic in ("join-left", "join-right", "join-pairs"):
        create_topic(bootstrap, topic, PARTITIONS)
    with StreamsMember(bootstrap, "join", tmp_path / "one", "join", "join") as member:
        assert member.send_command("running") == "RUNNING"
        for topic, text in (("join-left", "x:1\ny:2\n"), ("join-right", "y:3\nx:4\n")):
            options = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
            good(tools.run("kafka-console-producer", "--bootstrap-server", bootstrap, "--topic", topic, *options, text=text))
        read = ("--topic", "join-pairs", "--from-beginning", "--max-messages", "2", "--isolation-level", "read_committed")
        assert sorted(good(tools.run("kafka-console-consumer", "--bootstrap-server", bootstrap, *read)).split()) == ["14", "23"]
        member.close()


def test_joined_topics_with_different_numbers_of_partitions_stop_the_application(bootstrap: str, tmp_path: Path) -> None:
    create_topic(bootstrap, "odd-left", 2)
    create_topic(bootstrap, "odd-right", 3)
    with StreamsMember(bootstrap, "odd", tmp_path / "one", "join", "odd") as member:
        assert "Following topics do not have the same number of partitions: [{odd-left=2, odd-right=3}]" in member.send_command("failed")


def test_a_missing_source_topic_stops_the_application(bootstrap: str, tmp_path: Path) -> None:
    with StreamsMember(bootstrap, "none", tmp_path / "one", "words", "none") as member:
        assert "Source topics none-text are missing." in member.send_command("failed")


def test_the_streams_groups_tool_describes_resets_and_deletes_a_group(bootstrap: str, tmp_path: Path, tools: Tools) -> None:
    words = WordCount(bootstrap, "tool", tmp_path)
    words.write("a b a", "c a")

    def streams_groups(*arguments: str) -> str:
        return run(tools, words, "kafka-streams-groups", *arguments)

    with words.member() as member:
        assert member.send_command("running") == "RUNNING"
        words.check()
        assert "tool" in streams_groups("--list").split()
        (state,) = table(streams_groups("--describe", "--group", "tool", "--state").replace("COORDINATOR (ID)", "ADDRESS ID"), "GROUP")
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "1")
        lags = table(streams_groups("--describe", "--group", "tool"), "GROUP")
        topics = {(row["TOPIC"], row["PARTITION"]): row["OFFSET-LAG"] for row in lags}
        assert topics == {(topic, str(index)): "0" for topic in ("tool-text", "tool-words-repartition") for index in range(PARTITIONS)}
        assert "ACTIVE: 0:[0,1]; 1:[0,1]" in streams_groups("--describe", "--group", "tool", "--members", "--verbose")
        member.close()
    reset = streams_groups("--reset-offsets", "--group", "tool", "--all-input-topics", "--to-earliest", "--execute")
    assert [(row["TOPIC"], row["NEW-OFFSET"]) for row in table(reset, "GROUP")] == [("tool-text", "0"), ("tool-text", "0")]
    assert "Successful" in streams_groups("--delete-offsets", "--group", "tool", "--input-topic", "tool-text")
    assert "successful" in streams_groups("--delete", "--group", "tool")
    assert "tool" not in streams_groups("--list").split()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_streams_group_continues_without_a_rebalance_over_a_takeover_by_kafka_and_back(tmp_path: Path, kill: bool) -> None:
    settings = {**SETTINGS, "group.streams.session.timeout.ms": "60000"}
    kafka = ReferenceBroker(tmp_path / "data", settings=settings, static_voters=True)
    ours = RunningBroker(tmp_path / "data", {**settings, "listeners": f"PLAINTEXT://{HOST}:{kafka.port}"})
    words = WordCount(ours.start().bootstrap, "words", tmp_path)
    words.write("a b a", "c a")
    try:
        with words.member() as member:
            assert member.send_command("running") == "RUNNING"
            words.check()
            before = described(kafka.port)
            for last, following in ((ours, kafka), (kafka, ours)):
                if kill:
                    last.kill()
                else:
                    last.stop()
                following.start()
                words.write("a", "b d")
                words.check()
                assert described(kafka.port) == before
            member.close()
    finally:
        ours.stop()


def described(port: int) -> DescribedGroup:
    """Return the description of the group "words", whose members' order is not defined."""
    with Client(HOST, port) as client:
        (group,) = client.call(StreamsGroupDescribeRequest(["words"])).groups
    assert (group.error_code, group.group_state) == (0, "Stable")
    group.members.sort(key=lambda member: member.member_id)
    return group
