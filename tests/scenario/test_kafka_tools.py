"""Apache Kafka's own tools against a broker, and its log dump over the files that the broker wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.jars import KafkaMissing, jars
from client_compat.kafka.tools import Done, Tools
from tests.support.running_broker import RunningBroker


@pytest.fixture(scope="module")
def tools() -> Tools:
    try:
        jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    return Tools()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("tools") / "data") as running:
        yield running


def run(tools: Tools, broker: RunningBroker, tool: str, *arguments: str, text: str = "") -> str:
    """Its output; it must end well."""
    done = tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments, text=text)
    return good(done)


def good(done: Done) -> str:
    assert done.code == 0, f"{done.out}\n{done.err}"
    assert "Exception" not in done.err, done.err
    return done.out


def create(tools: Tools, broker: RunningBroker, topic: str, partitions: int = 1) -> None:
    run(tools, broker, "kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))


def test_kafka_topics_creates_describes_grows_lists_and_deletes(tools: Tools, broker: RunningBroker) -> None:
    made = run(tools, broker, "kafka-topics", "--create", "--topic", "made", "--partitions", "2", "--config", "retention.ms=1000")
    assert "Created topic made." in made
    again = tools.run("kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "made")
    assert again.code == 1
    assert "TopicExistsException" in again.err + again.out
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
    described = run(tools, broker, "kafka-consumer-groups", "--describe", "--group", "readers")
    assert re.search(r"readers\s+lines\s+0\s+2\s+2\s+0", described), described
    reset = ["--reset-offsets", "--to-earliest", "--execute", "--group", "readers", "--topic", "lines"]
    assert re.search(r"readers\s+lines\s+0\s+0", run(tools, broker, "kafka-consumer-groups", *reset))
    assert "readers" in run(tools, broker, "kafka-consumer-groups", "--list")
    run(tools, broker, "kafka-consumer-groups", "--delete", "--group", "readers")


def test_kafka_configs_sets_and_shows_topic_and_broker_configurations(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "configured")
    topic = ["--entity-type", "topics", "--entity-name", "configured"]
    run(tools, broker, "kafka-configs", "--alter", *topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    shown = run(tools, broker, "kafka-configs", "--describe", *topic)
    assert "retention.ms=5000" in shown
    assert "cleanup.policy=compact,delete" in shown
    bad = tools.run("kafka-configs", "--bootstrap-server", broker.bootstrap, "--alter", *topic, "--add-config", "no.such=1")
    assert bad.code == 1
    assert "log.retention.hours=168" in run(
        tools, broker, "kafka-configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"
    )


def test_offsets_deleted_records_and_log_directories(tools: Tools, broker: RunningBroker, tmp_path: Path) -> None:
    create(tools, broker, "cut")
    run(tools, broker, "kafka-console-producer", "--topic", "cut", text="a\nb\nc\n")
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut").strip() == "cut:0:3"
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": 2}]}))
    assert "low_watermark: 2" in run(tools, broker, "kafka-delete-records", "--offset-json-file", str(plan))
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut", "--time", "earliest").strip() == "cut:0:2"
    assert run(tools, broker, "kafka-get-offsets", "--topic", "cut", "--time", "max-timestamp").strip() == "cut:0:2"
    told = run(tools, broker, "kafka-log-dirs", "--describe", "--topic-list", "cut")
    (directory,) = json.loads(told[told.index("{") :])["brokers"][0]["logDirs"]
    assert (directory["error"], directory["partitions"][0]["partition"]) == (None, "cut-0")
    assert directory["partitions"][0]["size"] > 0


def test_performance_tools_count_every_record(tools: Tools, broker: RunningBroker) -> None:
    create(tools, broker, "perf", 2)
    load = ["--topic", "perf", "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    told = good(tools.run("kafka-producer-perf-test", *load, "--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all"))
    assert "2000 records sent" in told
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


def test_cluster_tools_read_what_the_broker_offers(tools: Tools, broker: RunningBroker) -> None:
    versions = run(tools, broker, "kafka-broker-api-versions")
    assert "Produce(0): 0 to 13" in versions
    assert "metadata.version" in run(tools, broker, "kafka-features", "describe")
    assert "TransactionalId" in run(tools, broker, "kafka-transactions", "list")
