"""The commands of `ottla` as a user types them, against a real broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.ports import free_port
from ottla.protocol.client import Client
from tests.support import share_group_calls
from tests.support.group_calls import find_coordinator
from tests.support.share_calls import configure
from tests.support.streams_group_calls import beat, prepare

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with ottla(tmp_path_factory.mktemp("cli") / "data") as running:
        yield running


def run(address: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *arguments, "--bootstrap-server", address]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def cli(broker: BrokerProcess, *arguments: str, stdin: str = "") -> str:
    done = run(broker.bootstrap, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(broker: BrokerProcess, *arguments: str) -> str:
    done = run(broker.bootstrap, *arguments)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_topic_lives_from_create_to_delete(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=86400000")
    assert {"name": "orders", "partitions": 3, "internal": False} in json.loads(cli(broker, "topics", "list", "--json"))
    cli(broker, "topics", "alter", "orders", "--partitions", "5", "--config", "max.message.bytes=2000000", "--unset", "retention.ms")
    found = json.loads(cli(broker, "topics", "describe", "orders", "--json"))
    assert len(found["partitions"]) == 5
    assert found["configs"] == {"max.message.bytes": "2000000"}
    assert re.fullmatch(r"[\w-]{22}", found["topic_id"]), "as Kafka writes ids"
    cli(broker, "topics", "delete", "orders", "--yes")
    assert "orders" not in cli(broker, "topics", "list")


def test_produce_to_an_unknown_partition_or_illegal_topic_fails_before_reading_input(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "single", "--partitions", "1")
    assert refused(broker, "produce", "single", "--partition", "7") == "error: topic 'single' has no partition 7\n"
    contains = "'no topic' contains characters other than ASCII letters, digits, '.', '_' and '-'"
    assert refused(broker, "produce", "no topic") == f"error: topic 'no topic': INVALID_TOPIC_EXCEPTION ({contains})\n"


def test_a_refused_topic_says_why(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "twice")
    assert "TOPIC_ALREADY_EXISTS" in refused(broker, "topics", "create", "twice")
    assert "INVALID_CONFIG" in refused(broker, "topics", "create", "wrong", "--config", "no.such.setting=1")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused(broker, "topics", "describe", "absent")
    assert "name=value" in refused(broker, "topics", "create", "wrong", "--config", "oops")


def test_lines_come_back_with_keys_headers_and_offsets(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "lines")
    cli(broker, "produce", "lines", "--key-separator", ":", "--header", "source=test", "--codec", "zstd", stdin="a:1\nb:2\nno key\n")
    taken = [json.loads(line) for line in cli(broker, "consume", "lines", "--from-beginning", "--exit-at-end", "--json").splitlines()]
    assert [(record["offset"], record["key"], record["value"]) for record in taken] == [(0, "a", "1"), (1, "b", "2"), (2, None, "no key")]
    assert taken[0]["headers"] == [["source", "test"]]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_each_level_of_acks_delivers(broker: BrokerProcess, acks: str) -> None:
    topic = f"acks-{acks}"
    cli(broker, "topics", "create", topic)
    cli(broker, "produce", topic, "--acks", acks, stdin="x\n")
    assert cli(broker, "consume", topic, "--from-beginning", "--max-messages", "1") == "x\n"


def test_a_group_is_described_reset_and_deleted(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "work")
    cli(broker, "produce", "work", stdin="1\n2\n3\n4\n")
    assert cli(broker, "consume", "work", "--group", "crew", "--from-beginning", "--max-messages", "3") == "1\n2\n3\n"
    assert "crew" in cli(broker, "groups", "list")
    found = json.loads(cli(broker, "groups", "describe", "crew", "--json"))
    assert found["state"] == "Empty"
    assert [(row["committed"], row["end"], row["lag"]) for row in found["offsets"]] == [(3, 4, 1)]
    cli(broker, "groups", "reset-offsets", "crew", "--topic", "work", "--to", "earliest")
    assert json.loads(cli(broker, "groups", "describe", "crew", "--json"))["offsets"][0]["committed"] == 3, "only with --execute"
    cli(broker, "groups", "reset-offsets", "crew", "--topic", "work:0", "--shift-by", "-2", "--execute")
    assert cli(broker, "consume", "work", "--group", "crew", "--max-messages", "1") == "2\n"
    cli(broker, "groups", "delete", "crew", "--yes")
    assert "crew" not in cli(broker, "groups", "list")


def test_a_reset_to_a_time_before_all_records_goes_to_the_first(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "dated")
    cli(broker, "produce", "dated", stdin="1\n2\n")
    cli(broker, "consume", "dated", "--group", "historians", "--from-beginning", "--max-messages", "2")
    cli(broker, "groups", "reset-offsets", "historians", "--topic", "dated", "--to", "2001-01-01", "--execute")
    assert json.loads(cli(broker, "groups", "describe", "historians", "--json"))["offsets"][0]["committed"] == 0


def test_a_share_group_is_described_reset_and_deleted(broker: BrokerProcess) -> None:
    cli(broker, "topics", "create", "shared")
    cli(broker, "produce", "shared", stdin="1\n2\n3\n")
    with Client(HOST, broker.port) as client:
        find_coordinator(client, "team")
        configure(client, "team", share__assignment__interval__ms="0")
        joined = {"group_id": "team", "subscribed_topic_names": ["shared"]}
        assert share_group_calls.beat(client, **joined).error_code == 0
        found = json.loads(cli(broker, "groups", "describe", "team", "--json"))
        assert (found["state"], found["assignor"], [member["member"] for member in found["members"]]) == ("Stable", "simple", ["m"])
        assert "group 'team' is Stable" in refused(broker, "groups", "reset-offsets", "team", "--topic", "shared", "--to", "latest")
        share_group_calls.beat(client, epoch=-1, group_id="team")
    cli(broker, "groups", "reset-offsets", "team", "--topic", "shared", "--to", "1", "--execute")
    row = {"topic": "shared", "partition": 0, "start": 1, "lag": 2, "members": 0}
    assert json.loads(cli(broker, "groups", "describe", "team", "--json"))["offsets"] == [row]
    assert "share" in cli(broker, "groups", "list")
    cli(broker, "groups", "delete", "team", "--yes")
    assert "not found" in refused(broker, "groups", "describe", "team")


def test_a_streams_group_is_described_with_the_partitions_that_its_tasks_read(broker: BrokerProcess) -> None:
    with Client(HOST, broker.port) as client:
        prepare(client)
        configure(client, "g", streams__initial__rebalance__delay__ms="0", streams__assignment__interval__ms="0")
        assert beat(client).error_code == 0
        found = json.loads(cli(broker, "groups", "describe", "g", "--json"))
        assert (found["state"], [member["member"] for member in found["members"]]) == ("Stable", ["m"])
        assert [(row["topic"], row["partition"], row["member"]) for row in found["offsets"]] == [("t", 0, "m"), ("t", 1, "m")]
        assert "group 'g' is Stable" in refused(broker, "groups", "reset-offsets", "g", "--topic", "t", "--to", "latest", "--execute")
        beat(client, -1)
    cli(broker, "groups", "reset-offsets", "g", "--topic", "t:1", "--to", "earliest", "--execute")
    (row,) = json.loads(cli(broker, "groups", "describe", "g", "--json"))["offsets"]
    assert (row["partition"], row["committed"], row["lag"]) == (1, 0, 0)
    assert "not found" in refused(broker, "groups", "describe", "no-such-group")


@pytest.mark.parametrize("arguments", [("topics", "list"), ("groups", "list"), ("produce", "t"), ("consume", "t", "--exit-at-end")])
def test_command_without_a_reachable_broker_advises_to_start_one(arguments: tuple[str, ...]) -> None:
    done = run(f"127.0.0.1:{free_port()}", *arguments, stdin="x\n")
    assert done.returncode == 1
    assert "ottla serve" in done.stderr
    assert "Traceback" not in done.stderr
