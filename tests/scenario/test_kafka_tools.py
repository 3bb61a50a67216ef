"""Apache Kafka's own tools against Ottla, and its log dump tool on Ottla's files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.tools import Tools
from ottla.broker.cli.kafka_tools import run as run_own
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from tests.support.apache_kafka import jars_or_skip
from tests.support.consumer_calls import join as consumer_join
from tests.support.group_calls import commit, find_coordinator
from tests.support.kafka_tools import create, good, refused, run, table
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create as make_topic
from tests.support.topic_calls import produce


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("tools") / "data") as running:
        yield running


def test_kafka_topics_creates_describes_grows_lists_and_deletes(tools: Tools, broker: RunningBroker) -> None:
    made = run(tools, broker, "kafka-topics", "--create", "--topic", "made", "--partitions", "2", "--config", "retention.ms=1000")
    assert "Created topic made." in made
    assert "TopicExistsException" in refused(tools, broker, "kafka-topics", "--create", "--topic", "made")
    run(tools, broker, "kafka-topics", "--alter", "--topic", "made", "--partitions", "3")
    described = run(tools, broker, "kafka-topics", "--describe", "--topic", "made")
    assert "PartitionCount: 3" in described
    assert "retention.ms=1000" in described
    assert len(re.findall(r"Leader: 1\s+Replicas: 1\s+Isr: 1", described)) == 3
    run(tools, broker, "kafka-topics", "--delete", "--topic", "made")
    assert "made" not in run(tools, broker, "kafka-topics", "--list").split()


def test_console_producer_and_consumer_and_consumer_groups(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "lines")
    keyed = ["--topic", "lines", "--reader-property", "parse.key=true", "--compression-codec", "zstd"]
    run(tools, broker, "kafka-console-producer", *keyed, text="k1\tone\nk2\ttwo\n")
    shown = ["--topic", "lines", "--from-beginning", "--max-messages", "2", "--formatter-property", "print.key=true", "--group", "readers"]
    assert run(tools, broker, "kafka-console-consumer", *shown).splitlines() == ["k1\tone", "k2\ttwo"]
    assert position(tools, broker, "readers") == ("lines", "0", "2", "2", "0")
    assert reset(tools, broker, "readers", "lines", "--to-earliest") == "0"
    cut = run(tools, broker, "kafka-consumer-groups", "--delete-offsets", "--group", "readers", "--topic", "lines")
    assert re.search(r"lines\s+0\s+Successful", cut), cut
    run(tools, broker, "kafka-consumer-groups", "--delete", "--group", "readers")
    assert "readers" not in run(tools, broker, "kafka-consumer-groups", "--list").split()


def position(tools: Tools, broker: RunningBroker, group: str) -> tuple[str, ...]:
    """Return topic, partition, committed offset, log end offset and lag, as the group tool describes the group's only partition."""
    (row,) = table(run(tools, broker, "kafka-consumer-groups", "--describe", "--group", group), "GROUP")
    return tuple(row[name] for name in ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"))


def reset(tools: Tools, broker: RunningBroker, group: str, topic: str, *how: str) -> str:
    """Reset the offset of the only partition; return the new offset."""
    place = ["--group", group, "--topic", topic]
    (row,) = table(run(tools, broker, "kafka-consumer-groups", "--reset-offsets", *how, *place, "--execute"), "GROUP")
    return row["NEW-OFFSET"]


def test_kafka_consumer_groups_lists_describes_resets_and_deletes(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "grouped")
    run(tools, broker, "kafka-console-producer", "--topic", "grouped", text="a\nb\nc\nd\n")
    read = ["--from-beginning", "--max-messages", "3", "--group", "new", "--command-property", "group.protocol=consumer"]
    assert run(tools, broker, "kafka-console-consumer", "--topic", "grouped", *read).split() == ["a", "b", "c"]
    assert position(tools, broker, "new") == ("grouped", "0", "3", "4", "1")
    state = run(tools, broker, "kafka-consumer-groups", "--describe", "--state", "--group", "new")
    assert re.search(r"new\s+127\.0\.0\.1:\d+\s+\(1\)\s+uniform\s+Empty\s+0", state), state
    assert reset(tools, broker, "new", "grouped", "--shift-by", "-2") == "1"
    assert reset(tools, broker, "new", "grouped", "--to-latest") == "4"
    assert reset(tools, broker, "new", "grouped", "--to-earliest") == "0"
    assert position(tools, broker, "new") == ("grouped", "0", "0", "4", "4")
    assert re.search(r"new\s+Consumer\s+consumer", run(tools, broker, "kafka-groups", "--list"))
    run(tools, broker, "kafka-consumer-groups", "--delete", "--group", "new")
    assert "new" not in run(tools, broker, "kafka-consumer-groups", "--list").split()


def test_ottlas_kafka_tools_print_what_kafkas_tools_print(tools: Tools, broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
    with broker.client("app") as client:
        make_topic(client, "told", 2, {"retention.ms": "100000000"})
        produce(client, "told", b"a", b"b", b"c")
        find_coordinator(client)
        assert commit(client, 1, topic="told", group_id="told-old") == 0
        assert consumer_join(client, "m" * 22, group_id="told-new", subscribed_topic_names=["told"]).error_code == 0
    groups = ("kafka-consumer-groups", "--group", "told-new", "--group", "told-old")
    for tool, *options in (
        (*groups, "--describe", "--members", "--verbose"),
        (*groups, "--describe", "--state", "--verbose"),
        (*groups, "--describe", "--offsets", "--verbose"),
        ("kafka-consumer-groups", "--delete-offsets", "--group", "told-none", "--topic", "told:0"),
        ("kafka-topics", "--describe", "--topic", "told"),
    ):
        theirs = tools.run(tool, "--bootstrap-server", broker.bootstrap, *options)
        code = run_own(tool, [*options, "--bootstrap-server", broker.bootstrap])
        assert (code, capsys.readouterr().out) == (theirs.code, theirs.out), (tool, *options)


def test_kafka_configs_sets_and_shows_topic_and_broker_configurations(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "configured")
    topic = ["--entity-type", "topics", "--entity-name", "configured"]
    run(tools, broker, "kafka-configs", "--alter", *topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    shown = run(tools, broker, "kafka-configs", "--describe", *topic)
    assert "retention.ms=5000" in shown
    assert "cleanup.policy=compact,delete" in shown
    run(tools, broker, "kafka-configs", "--alter", *topic, "--delete-config", "retention.ms")
    everything = run(tools, broker, "kafka-configs", "--describe", "--all", *topic)
    assert "retention.ms=604800000" in everything
    assert "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete" in everything
    assert "InvalidConfigurationException" in refused(tools, broker, "kafka-configs", "--alter", *topic, "--add-config", "no.such=1")


def test_kafka_configs_sets_and_describes_broker_default_and_group_configs(tools: Tools, broker: RunningBroker) -> None:
    this, every = ["--entity-type", "brokers", "--entity-name", "1"], ["--entity-type", "brokers", "--entity-default"]
    run(tools, broker, "kafka-configs", "--alter", *this, "--add-config", "log.retention.ms=123456")
    run(tools, broker, "kafka-configs", "--alter", *every, "--add-config", "log.retention.ms=654321")
    shown = run(tools, broker, "kafka-configs", "--describe", "--all", *this)
    assert "log.retention.ms=123456 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=123456, " in shown
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=654321" in shown
    assert "log.retention.hours=168" in shown
    assert "log.retention.ms=654321" in run(tools, broker, "kafka-configs", "--describe", *every)
    fixed = refused(tools, broker, "kafka-configs", "--alter", *this, "--add-config", "num.partitions=7")
    assert "Cannot update these configs dynamically" in fixed
    group = ["--entity-type", "groups", "--entity-name", "slow"]
    run(tools, broker, "kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000")
    of_groups = run(tools, broker, "kafka-configs", "--describe", "--entity-type", "groups")
    assert "Dynamic configs for group slow are:" in of_groups
    assert "consumer.session.timeout.ms=50000" in of_groups


def test_offsets_deleted_records_and_log_directories(tools: Tools, broker: RunningBroker, tmp_path: Path) -> None:
    create(tools, broker, "cut")
    run(tools, broker, "kafka-console-producer", "--topic", "cut", text="a\nb\n")
    run(tools, broker, "kafka-console-producer", "--topic", "cut", text="c\n")  # later, because the others' timestamps may be equal
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut").strip() == "cut:0:3"
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": 2}]}))
    assert "low_watermark: 2" in run(tools, broker, "kafka-delete-records", "--offset-json-file", str(plan))
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut", "--time", "earliest").strip() == "cut:0:2"
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut", "--time", "max-timestamp").strip() == "cut:0:2"
    output = run(tools, broker, "kafka-log-dirs", "--describe", "--topic-list", "cut")
    (directory,) = json.loads(output[output.index("{") :])["brokers"][0]["logDirs"]
    assert (directory["error"], directory["partitions"][0]["partition"]) == (None, "cut-0")
    assert directory["partitions"][0]["size"] > 0


def test_performance_tools_count_every_record(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "perf", 2)
    load = ["--topic", "perf", "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    output = good(tools.run("kafka-producer-perf-test", *load, "--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all"))
    assert "2000 records sent" in output
    read = run(tools, broker, "kafka-consumer-perf-test", "--topic", "perf", "--messages", "2000")
    assert re.search(r", 2000, ", read), read


def test_verifiable_producer_and_consumer_agree(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "verified")
    sent = run(tools, broker, "kafka-verifiable-producer", "--topic", "verified", "--max-messages", "50", "--acks", "-1")
    assert json.loads(sent.splitlines()[-1])["acked"] == 50
    read = run(
        tools,
        broker,
        "kafka-verifiable-consumer",
        "--topic",
        "verified",
        "--group-id",
        "verifiers",
        "--max-messages",
        "50",
        "--reset-policy",
        "earliest",
    )
    events = [json.loads(line) for line in read.splitlines() if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 50
    assert any(event["name"] == "offsets_committed" and event["success"] for event in events)


def test_broker_tools_list_api_versions_features_and_transactions(tools: Tools, broker: RunningBroker) -> None:
    versions = run(tools, broker, "kafka-broker-api-versions")
    assert "Produce(0): 0 to 13" in versions
    assert "metadata.version" in run(tools, broker, "kafka-features", "describe")
    assert "TransactionalId" in run(tools, broker, "kafka-transactions", "list")


def test_kafka_acls_adds_lists_and_removes(tools: Tools, tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with RunningBroker(tmp_path / "data", settings) as guarded:
        run(tools, guarded, "kafka-acls", "--add", "--allow-principal", "User:ann", "--producer", "--topic", "orders")
        denied = ["--deny-principal", "User:bob", "--operation", "Read", "--group", "g", "--resource-pattern-type", "prefixed"]
        run(tools, guarded, "kafka-acls", "--add", *denied, "--deny-host", "10.0.0.1")
        listed = run(tools, guarded, "kafka-acls", "--list")
        assert "(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY)" in listed
        assert len(re.findall(r"principal=User:ann, host=\*, operation=(?:WRITE|CREATE|DESCRIBE), permissionType=ALLOW", listed)) == 3
        run(tools, guarded, "kafka-acls", "--remove", "--force", "--topic", "orders")
        assert "User:ann" not in run(tools, guarded, "kafka-acls", "--list")


# --- tools for controller decisions --------------------------------------------------------------------------------------------


def test_standalone_node_is_its_quorums_only_voter(tools: Tools, broker: RunningBroker) -> None:
    status = run(tools, broker, "kafka-metadata-quorum", "describe", "--status")
    assert "LeaderId:" in status
    output = run(tools, broker, "kafka-metadata-quorum", "describe", "--replication")
    assert [(line.split()[0], line.split()[-1]) for line in output.splitlines()[1:]] == [("1", "Leader")]


def test_leader_election_and_reassignment_tools_find_nothing_to_change(tools: Tools, broker: RunningBroker, tmp_path: Path) -> None:
    create(tools, broker, "unmoved")
    place = ["--election-type", "preferred", "--topic", "unmoved", "--partition", "0"]
    assert "Valid replica already elected" in run(tools, broker, "kafka-leader-election", *place)
    assert "No partition reassignments found." in run(tools, broker, "kafka-reassign-partitions", "--list")
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"unmoved","partition":0,"replicas":[1]}]}')
    run(tools, broker, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    done = run(tools, broker, "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
    assert "Reassignment of partition unmoved-0 is completed." in done


def test_a_feature_is_lowered_and_raised(tools: Tools, broker: RunningBroker) -> None:
    for verb, level in (("downgrade", "1"), ("upgrade", "2")):
        run(tools, broker, "kafka-features", verb, "--feature", f"transaction.version={level}")
        output = run(tools, broker, "kafka-features", "describe")
        (line,) = (line for line in output.splitlines() if "transaction.version" in line)
        assert f"FinalizedVersionLevel: {level}" in line
