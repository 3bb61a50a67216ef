"""Kafka's tools by their names, over a broker: exit codes, and the lines that scripts look for, as Kafka 4.4.0's print them."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.cli.kafka_tools import TOOLS, named, run
from ottla.broker.cli.kafka_tools.console_consumer import Formatter
from ottla.broker.cli.kafka_tools.console_producer import LineReader
from ottla.broker.cli.kafka_tools.options import comma_list
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.protocol.client import Client
from tests.support.consumer_calls import join as consumer_join
from tests.support.group_calls import commit, find_coordinator
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import produce

Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    open_to_all = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with RunningBroker(tmp_path_factory.mktemp("broker") / "data", open_to_all) as running:
        yield running


@pytest.fixture
def tool(broker: RunningBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Return a function that runs a tool against the broker and returns its exit code, standard output and standard error."""

    def call(name: str, *options: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            code = run(name, [*options, "--bootstrap-server", broker.bootstrap])
        except SystemExit as ended:
            code = int(str(ended.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_symlink_to_ottla_runs_the_kafka_tool_of_its_name() -> None:
    assert [named(f"/opt/kafka/bin/{name}{ending}") for name in TOOLS for ending in ("", ".sh")] == [n for n in TOOLS for _ in (1, 2)]
    assert named("/opt/ottla/bin/ottla") is None


def test_topics_are_created_described_changed_and_deleted(tool: Tool) -> None:
    made = ["--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=1000"]
    assert tool("kafka-topics", *made) == (0, "Created topic orders.\n", "")
    assert tool("kafka-topics", *made)[:2] == (1, "Error while executing topic command : Topic 'orders' already exists.\n")
    assert tool("kafka-topics", *made, "--if-not-exists") == (0, "", "")
    assert tool("kafka-topics", "--create", "--topic", "a.b")[1].startswith("WARNING: Due to limitations in metric names")
    assert "orders\n" in tool("kafka-topics", "--list")[1]
    code, described, _ = tool("kafka-topics", "--describe", "--topic", "orders")
    lines = described.splitlines()
    assert re.fullmatch(
        r"Topic: orders\tTopicId: [\w-]{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*retention.ms=1000.*", lines[0]
    )
    assert lines[1] == "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    assert (code, len(lines)) == (0, 3)
    assert tool("kafka-topics", "--describe", "--under-replicated-partitions") == (0, "", "")
    assert tool("kafka-topics", "--alter", "--topic", "orders", "--partitions", "3") == (0, "", "")
    assert tool("kafka-get-offsets", "--topic", "ord.*")[1] == "orders:0:0\norders:1:0\norders:2:0\n"
    assert tool("kafka-topics", "--delete", "--topic", "orders") == (0, "", "")
    gone = "Error while executing topic command : Topic 'orders' does not exist as expected\n"
    assert tool("kafka-topics", "--delete", "--topic", "orders")[:2] == (1, gone)
    assert tool("kafka-topics", "--delete", "--topic", "orders", "--if-exists") == (0, "", "")


def test_invalid_options_exit_with_code_1(tool: Tool) -> None:
    assert "exactly one action" in tool("kafka-topics")[2]
    assert "Ottla does not use ZooKeeper" in tool("kafka-topics", "--list", "--zookeeper", "z:2181")[2]
    assert tool("kafka-topics", "--list", "--if-exists")[2].startswith('Option "[if-exists]" can\'t be used with option "[list]"\n')
    for options in (["--create"], ["--alter", "--topic", "x"], ["--list", "--no-such-option"], ["--describe", "--partitions", "2"]):
        assert tool("kafka-topics", *options)[0] == 1
    assert tool("kafka-topics", "--version")[:2] == (0, "4.4.0 (Ottla)\n")


def test_unreachable_broker_is_retried_and_then_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    patience = tmp_path / "client.properties"
    patience.write_text("default.api.timeout.ms=50\n")
    assert run("kafka-topics", ["--list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(patience)]) == 1
    output = capsys.readouterr()
    assert "no broker can be reached" in output.out
    assert output.err.startswith("WARN no broker can be reached")
    assert output.err.endswith("Trying again for 0 s.\n")
    assert run("cub", ["kafka-ready", "-b", "127.0.0.1:1", "1", "0.1"]) == 1


def test_commands_of_confluents_utility_belt_are_supported(
    broker: RunningBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "x")
    calls = [
        (0, ["kafka-ready", "-b", broker.bootstrap, "1", "5"]),
        (1, ["kafka-ready", "-b", broker.bootstrap, "2", "0"]),
        (0, ["zk-ready", "z:2181", "10"]),
        (0, ["ensure", "GIVEN"]),
        (1, ["ensure", "NOT_GIVEN"]),
        (0, ["path", "/", "existence"]),
        (1, ["path", "/no/where", "writable"]),
        (0, ["listeners", "A://x:1,B://y:2"]),
    ]
    assert [run("cub", argv) for _, argv in calls] == [code for code, _ in calls]
    assert capsys.readouterr().out.splitlines()[-1] == "A://0.0.0.0:1,B://0.0.0.0:2"


def test_topic_configs_quotas_and_users_are_changed_and_described(tool: Tool) -> None:
    tool("kafka-topics", "--create", "--topic", "settings")
    topic = ["--entity-type", "topics", "--entity-name", "settings"]
    changed = tool("kafka-configs", "--alter", *topic, "--add-config", "cleanup.policy=[compact,delete],segment.bytes=1048576")
    assert changed == (0, "Completed updating config for topic settings.\n", "")
    assert tool("kafka-configs", "--describe", "--topic", "settings")[1].splitlines()[:2] == [
        "Dynamic configs for topic settings are:",
        "  cleanup.policy=compact,delete sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
    ]
    assert tool("kafka-configs", "--alter", *topic, "--delete-config", "segment.bytes,cleanup.policy")[0] == 0
    assert tool("kafka-configs", "--describe", *topic)[1] == "Dynamic configs for topic settings are:\n"
    assert tool("kafka-configs", "--alter", *topic, "--add-config", "no.such=1") == (1, "", "Unknown topic config name: no.such\n")
    for kind, setting in (("client-metrics", "interval.ms=1000"), ("groups", "consumer.session.timeout.ms=50000")):
        assert tool("kafka-configs", "--alter", "--entity-type", kind, "--entity-name", "its", "--add-config", setting)[0] == 0
        output = tool("kafka-configs", "--describe", "--entity-type", kind)[1]
        assert f"Dynamic configs for {kind[:-1]} its are:\n  {setting} sensitive=false" in output
        absent = tool("kafka-configs", "--describe", "--entity-type", kind, "--entity-name", "none")
        assert absent[:2] == (0, f"The {kind[:-1]} 'none' doesn't exist and doesn't have dynamic config.\n")
    assert "All configs for broker 1 are:" in tool("kafka-configs", "--describe", "--broker", "1", "--all")[1]
    defaults = ["--entity-type", "brokers", "--entity-default"]
    altered = tool("kafka-configs", "--alter", *defaults, "--add-config", "num.io.threads=9")
    assert altered[1] == "Completed updating default config for brokers in the cluster.\n"
    assert "num.io.threads=9" in tool("kafka-configs", "--describe", *defaults)[1]
    alice = ["--entity-type", "users", "--entity-name", "alice"]
    for scram in ("SCRAM-SHA-256=[iterations=8192,password=a,b=c]", "SCRAM-SHA-512=[password=x]"):
        assert tool("kafka-configs", "--alter", *alice, "--add-config", scram)[1] == "Completed updating config for user alice.\n"
    assert tool("kafka-configs", "--alter", *alice, "--add-config", "producer_byte_rate=1024")[0] == 0
    assert tool("kafka-configs", "--describe", "--user", "alice")[1] == (
        "Quota configs for user-principal 'alice' are producer_byte_rate=1024.0\n"
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096\n"
    )
    assert tool("kafka-configs", "--alter", *alice, "--delete-config", "SCRAM-SHA-512")[0] == 0
    refused = tool("kafka-configs", "--alter", *alice, "--add-config", "SCRAM-SHA-256=[secret]")
    assert (refused[0], "secret" in refused[1] + refused[2]) == (1, False)
    assert comma_list("a=1,b=[x,y=z],c=") == [("a", "1"), ("b", "x,y=z"), ("c", "")]


def test_access_control_lists_are_added_listed_and_removed(tool: Tool) -> None:
    code, added, _ = tool("kafka-acls", "--add", "--allow-principal", "User:bob", "--producer", "--topic", "t")
    entry = "\t(principal=User:bob, host=*, operation={}, permissionType=ALLOW)"
    resource = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
    lines = [f"Adding ACLs for resource `{resource}`: ", " " + entry.format("WRITE"), entry.format("DESCRIBE"), entry.format("CREATE"), ""]
    assert (code, added.splitlines()) == (0, lines)
    listed = tool("kafka-acls", "--list", "--topic", "t")[1].splitlines()
    assert listed[0] == f"Current ACLs for resource `{resource}`:"
    assert sorted(listed[1:4]) == [entry.format("CREATE"), entry.format("DESCRIBE"), entry.format("WRITE")]
    assert tool("kafka-acls", "--list", "--principal", "User:eve")[1] == "ACLs for principal `User:eve`\n"
    assert "already exists" in tool("kafka-acls", "--add", "--allow-principal", "User:bob", "--operation", "Write", "--topic", "t")[1]
    kept = tool("kafka-acls", "--remove", "--topic", "t", stdin="n\n")
    assert (kept[0], "Are you sure you want to delete all ACLs" in kept[1]) == (0, True)
    assert tool("kafka-acls", "--remove", "--topic", "t", "--force") == (0, "", "")
    assert tool("kafka-acls", "--list", "--topic", "t")[1] == ""
    assert tool("kafka-acls", "--add", "--topic", "t")[0] == 1
    code, out, err = tool("kafka-acls", "--add", "--allow-principal", "User:bob", "--operation", "IdempotentWrite", "--topic", "t")
    assert (code, out, err.startswith("ResourceType TOPIC only supports operations [ALL, READ, ")) == (1, "", True)


def test_api_versions_are_listed_for_each_broker(tool: Tool, broker: RunningBroker) -> None:
    code, listed, _ = tool("kafka-broker-api-versions")
    assert listed.startswith(f"{broker.bootstrap} (id: 1 rack: null isFenced: false) -> (\n\tProduce(0): 0 to ")
    assert "\tApiVersions(18): 0 to 5 [usable: 5],\n" in listed
    assert (code, listed.endswith("]\n)\n")) == (0, True)


def test_console_producer_and_consumer_work_and_their_group_is_described_reset_and_deleted(tool: Tool) -> None:
    tool("kafka-topics", "--create", "--topic", "lines", "--partitions", "1")
    keyed = ["--property", "parse.key=true", "--property", "key.separator=:", "--producer-property", "acks=1"]
    assert tool("kafka-console-producer", "--topic", "lines", *keyed, stdin="k1:one\r\nk2:two\n")[:2] == (0, "")
    shown = [f"--property=print.{name}=true" for name in ("key", "offset", "partition")]
    reading = ["--topic", "lines", "--from-beginning", "--max-messages", "2", "--group", "readers"]
    assert tool("kafka-console-consumer", *reading, *shown) == (
        0,
        "Partition:0\tOffset:0\tk1\tone\nPartition:0\tOffset:1\tk2\ttwo\n",
        "Processed a total of 2 messages\n",
    )
    at = tool("kafka-console-consumer", "--topic", "lines", "--partition", "0", "--offset", "1", "--timeout-ms", "1")
    assert (at[0], at[1], "Processed a total of 1 messages" in at[2]) == (0, "two\n", True)
    assert tool("kafka-consumer-groups", "--list") == (0, "readers\n", "")
    row = r"readers +lines +0 +2 +2 +0 +- +- +-"
    assert re.search(rf"GROUP +TOPIC +PARTITION .*\n{row}\n", tool("kafka-consumer-groups", "--describe", "--group", "readers")[1])
    moved = ["--reset-offsets", "--group", "readers", "--topic", "lines", "--to-earliest"]
    assert re.search(r"readers +lines +0 +0\n", tool("kafka-consumer-groups", *moved, "--execute")[1])
    assert re.search(r"lines +0 +0 +2 +2 ", tool("kafka-consumer-groups", "--describe", "--all-groups")[1])
    dropped = tool("kafka-consumer-groups", "--delete-offsets", "--group", "readers", "--topic", "lines")[1]
    assert "Request succeeded for deleting offsets from group readers." in dropped
    deleted = "Deletion of requested consumer groups ('readers') was successful.\n"
    assert tool("kafka-consumer-groups", "--delete", "--group", "readers") == (0, deleted, "")
    gone = tool("kafka-consumer-groups", "--describe", "--group", "readers")
    not_found = "org.apache.kafka.common.errors.GroupIdNotFoundException: Group readers not found."
    assert gone[:2] == (0, f"\nError: Executing consumer group command failed due to {not_found}\n")


def test_groups_of_both_protocols_are_listed_reset_and_deleted_as_kafkas_tool_does_it(
    tool: Tool, broker: RunningBroker, tmp_path: Path
) -> None:
    def groups(*options: str) -> tuple[int, str, str]:
        return tool("kafka-consumer-groups", *options)

    tool("kafka-topics", "--create", "--topic", "grouped", "--partitions", "2")
    with broker.client() as client:
        find_coordinator(client)
        produce(client, "grouped", b"a", b"b", b"c")
        assert consumer_join(client, "m" * 22, group_id="new", subscribed_topic_names=["grouped"]).error_code == 0
        assert commit(client, 2, topic="grouped", group_id="old") == 0
    listed = groups("--list", "--type", "--state")[1].splitlines()
    assert [line.split() for line in listed] == [["GROUP", "TYPE", "STATE"], ["new", "Consumer", "Stable"], ["old", "Classic", "Empty"]]
    assert groups("--list", "--type", "classic")[1].split() == ["GROUP", "TYPE", "old", "Classic"]
    assert groups("--list", "--state", "bogus")[0] == 1
    state = groups("--describe", "--group", "new", "--state", "--verbose")[1].splitlines()[-1].split()
    assert (state[0], state[2:4], state[4], state[-1]) == ("new", ["(1)", "uniform"], "Stable", "1")
    members = groups("--describe", "--group", "new", "--members", "--verbose")[1].splitlines()
    assert members[-1].split()[:5] == ["new", "m" * 22, "/127.0.0.1", "test", "2"]
    lag = r"new +grouped +1 +- +0 +- +m+ /127\.0\.0\.1 +test"
    assert re.search(lag, groups("--describe", "--group", "new")[1])
    assert groups("--describe", "--group", "old")[2] == "\nConsumer group 'old' has no active members.\n"
    moved = groups("--reset-offsets", "--group", "new", "--topic", "grouped", "--to-earliest", "--execute")
    assert moved[1].startswith("\nError: Assignments can only be reset if the group 'new' is inactive, but the current state is Stable.\n")
    exported = groups("--reset-offsets", "--group", "old", "--all-topics", "--to-current", "--export", "--dry-run")
    assert exported == (0, "grouped,0,2\n\n", "")
    (tmp_path / "plan").write_text("grouped,0,1\n")
    plan = groups("--reset-offsets", "--group", "old", "--from-file", str(tmp_path / "plan"), "--execute")
    assert re.search(r"old +grouped +0 +1\n", plan[1])
    past = groups("--reset-offsets", "--group", "old", "--topic", "grouped:0", "--by-duration", "PT1H", "--dry-run")
    assert re.search(r"old +grouped +0 +0\n", past[1])
    for mistake in (["--to-earliest", "--to-latest"], ["--shift-by", "1"], ["--by-duration", "PT1H", "--execute"], []):
        assert groups("--reset-offsets", "--group", "old", "--topic", "grouped", "--dry-run", *mistake)[:2] == (1, "")
    assert groups("--reset-offsets", "--group", "old", "--topic", "nowhere", "--to-latest", "--dry-run")[:2] == (
        0,
        "\nError: Executing consumer group command failed due to This server does not host this topic-partition.\n",
    )
    dropped = groups("--delete-offsets", "--group", "nobody", "--topic", "grouped:0")[1]
    assert dropped.startswith(
        "\nError: The group id does not exist.\n\nTOPIC           PARTITION  STATUS         \ngrouped         0          Error: org."
    )
    deleted = groups("--delete", "--group", "new", "--group", "old")
    assert deleted[1] == (
        "\nError: Deletion of some consumer groups failed:\n* Group 'new' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.\n"
        "\nThese consumer groups were deleted successfully: 'old'\n"
    )


def test_consumer_start_position_is_validated_before_reading(tool: Tool) -> None:
    for place in (["--offset", "earliest"], ["--partition", "0", "--offset", "x"], ["--partition", "0", "--group", "g"]):
        code, out, err = tool("kafka-console-consumer", "--topic", "lines", *place)
        assert (code, out, "usage" in err) == (1, "", True), place
    code, out, err = tool("kafka-console-consumer", "--topic", "lines", "--partition", "9", "--offset", "earliest", "--timeout-ms", "300")
    assert (code, out, "TimeoutException\nProcessed a total of 0 messages\n" in err) == (0, "", True)
    for what in (["--request-required-acks", "5"], ["--compression-codec", "bogus"], ["--reader-property", "parse.key=true"]):
        code, out, err = tool("kafka-console-producer", "--topic", "lines", *what, stdin="no key\n")
        assert (code, out, err.startswith("Error: ")) == (1, "", True), what


def test_lines_are_parsed_to_records_with_headers_and_nulls_and_records_are_formatted() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.record("h1:v1,h2:NULL\tkey\tNULL", 1) == (b"key", None, [("h1", b"v1"), ("h2", None)])
    with pytest.raises(Exception, match="No key separator found on line number 7: 'no-key'"):
        LineReader({"parse.key": "true"}).record("no-key", 7)
    with pytest.raises(Exception, match="is a Java class"):
        Formatter({"value.deserializer": "com.example.Mine"})


def test_a_directory_is_formatted_once_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\nlog.dirs={tmp_path}/data\nconfluent.metrics=1\n"
    )
    arguments = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(file)]
    assert run("kafka-storage", ["info", "-c", str(file)]) == 1
    assert run("kafka-storage", arguments) == 0
    assert run("kafka-storage", arguments) == 1
    assert run("kafka-storage", [*arguments, "--ignore-formatted"]) == 0
    assert run("kafka-storage", ["info", "-c", str(file)]) == 0
    captured = capsys.readouterr()
    assert "Formatting metadata directory" in captured.out
    assert "All of the log directories are already formatted." in captured.out
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qk" in captured.out
    assert "already formatted. Use --ignore-formatted" in captured.err
    assert run("kafka-storage", ["random-uuid"]) == 0
    assert len(capsys.readouterr().out.strip()) == 22


def test_tools_print_no_terminal_control_characters(tool: Tool, broker: RunningBroker) -> None:
    """Any client can create a group whose name contains escape sequences that move the cursor or set the window's title."""
    hostile = "evil\x1b]0;owned\x07\u202egnp\x9b2J"
    shown = r"evil\u001b]0;owned\u0007\u202egnp\u009b2J"
    broker.topics.create("of-evil")
    with Client("127.0.0.1", broker.port) as client:
        find_coordinator(client, hostile)
        assert commit(client, 1, topic="of-evil", group_id=hostile, generation_id_or_member_epoch=-1, member_id="") == 0
    outputs = [tool("kafka-consumer-groups", "--list")[1], tool("kafka-consumer-groups", "--describe", "--group", hostile)[1]]
    for command in (["groups", "list"], ["groups", "list", "--json"], ["groups", "describe", hostile]):
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *command, "-b", broker.bootstrap], capture_output=True, text=True, timeout=60, check=False
        )
        outputs.append(done.stdout + done.stderr)
    for output in outputs:
        assert shown in output
        assert not any(character in output for character in "\x1b\x07\u202e\x9b")
