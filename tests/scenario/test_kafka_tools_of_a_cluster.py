"""Apache Kafka's own tools on a cluster of one Kafka broker and two Ottla brokers. Pointed at Ottla's, they print and do the same as at
Kafka's. Replicas that are moved or stopped for a while are in the end equal everywhere, byte for byte.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from client_compat.kafka.cluster import Cluster, Node, kinds_of, running
from client_compat.kafka.tools import Tools
from client_compat.support.brokers import HOST, BrokerProcess
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponsePartition
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import dumped_metadata, good, metadata_records, refused, run

KAFKAS, OURS, OTHER = 1, 2, 3
LINES = [f"line {number}" for number in range(300)]
BROKER_LOGGER = 8


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def cluster(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("tools") / "cluster"
    with running(Cluster(directory, kinds_of("kafka,ottla,ottla"), settings={"auto.leader.rebalance.enable": "false"})) as started:
        yield started


@pytest.fixture
def ours(cluster: Cluster) -> BrokerProcess:
    return cluster.broker(OURS).process


def all_of(*commands: Sequence[str], tools: Tools, at: BrokerProcess) -> list[str]:
    """Run these tools, two at a time; all must succeed. Return their outputs in order."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda command: run(tools, at, *command), commands))


def partition_of(seen: MetadataResponse, topic: str, index: int = 0) -> MetadataResponsePartition | None:
    partitions = next((each.partitions for each in seen.topics if each.name == topic), [])
    return next((each for each in partitions if each.partition_index == index), None)


def until_placed(cluster: Cluster, topic: str, replicas: list[int], in_sync: set[int], *, at: int = OURS) -> None:
    """Wait until the partition has these replicas and this ISR."""

    def holds(seen: MetadataResponse) -> bool:
        one = partition_of(seen, topic)
        return one is not None and (one.replica_nodes, set(one.isr_nodes)) == (replicas, in_sync)

    cluster.until(at, holds, f"{topic}-0 is on {replicas}, {in_sync} in sync")


def create(cluster: Cluster, tools: Tools, topic: str, *assignment: int, config: Mapping[str, str] | None = None) -> None:
    """Create a topic with one partition on these brokers; wait until an Ottla broker knows it."""
    configs = [word for name, value in (config or {}).items() for word in ("--config", f"{name}={value}")]
    replicas = ":".join(str(node) for node in assignment)
    run(tools, cluster.broker(OURS).process, "kafka-topics", "--create", "--topic", topic, "--replica-assignment", replicas, *configs)
    until_placed(cluster, topic, list(assignment), set(assignment))


def fill(tools: Tools, at: BrokerProcess, topic: str, lines: Sequence[str] = LINES) -> None:
    acks = ["--command-property", "acks=all"]
    assert (
        run(tools, at, "kafka-console-producer", "--topic", topic, *acks, text="".join(f"{line}\n" for line in lines)).strip(" >\n") == ""
    )


def logs_of(cluster: Cluster, topic: str) -> dict[int, bytes]:
    """Return the log files of the only partition, by the ids of the brokers that have a directory for it."""
    found = {}
    for broker in cluster.brokers:
        directory = broker.directory / f"{topic}-0"
        if directory.is_dir():
            found[broker.node_id] = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return found


def moves(path: Path, **targets: list[int]) -> list[str]:
    """Write the tools' reassignment file."""
    partitions = [{"topic": topic, "partition": 0, "replicas": replicas} for topic, replicas in targets.items()]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ["--reassignment-json-file", str(path)]


def test_topics_are_created_with_their_assignment_extended_described_and_deleted(
    cluster: Cluster, tools: Tools, ours: BrokerProcess
) -> None:
    create(cluster, tools, "made", KAFKAS, OURS, OTHER, config={"retention.ms": "1000000"})
    grown = ["--alter", "--topic", "made", "--partitions", "2", "--replica-assignment", "1:2:3,3:2:1"]
    run(tools, ours, "kafka-topics", *grown)
    cluster.until(OURS, lambda seen: partition_of(seen, "made", 1) is not None, "there is another partition")
    described = run(tools, ours, "kafka-topics", "--describe", "--topic", "made")
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 3\s+Configs: \S*retention.ms=1000000", described), described
    assert re.search(r"Partition: 0\s+Leader: 1\s+Replicas: 1,2,3\s+Isr: 1,2,3\s", described), described
    assert re.search(r"Partition: 1\s+Leader: 3\s+Replicas: 3,2,1\s+Isr: 3,2,1\s", described), described
    unknown = ["--create", "--topic", "nowhere", "--replica-assignment", "9"]
    assert "InvalidReplicaAssignmentException" in refused(tools, ours, "kafka-topics", *unknown)
    run(tools, ours, "kafka-topics", "--delete", "--topic", "made")
    cluster.until(OTHER, lambda seen: partition_of(seen, "made") is None, "the topic is gone")


def test_a_topic_moves_from_kafkas_broker_to_ottlas_and_back_with_all_that_it_holds(
    cluster: Cluster, tools: Tools, ours: BrokerProcess, tmp_path: Path
) -> None:
    create(cluster, tools, "moved", KAFKAS, config={"min.insync.replicas": "1"})
    fill(tools, ours, "moved")
    away, back = moves(tmp_path / "away", moved=[OURS, OTHER]), moves(tmp_path / "back", moved=[KAFKAS, OURS, OTHER])
    assert "Successfully started" in run(tools, ours, "kafka-reassign-partitions", "--execute", *away)
    until_placed(cluster, "moved", [OURS, OTHER], {OURS, OTHER})
    assert "Reassignment of partition moved-0 is completed." in run(tools, ours, "kafka-reassign-partitions", "--verify", *away)
    cluster.until(KAFKAS, lambda _: logs_of(cluster, "moved").keys() == {OURS, OTHER}, "who was removed has no directory any more")
    run(tools, ours, "kafka-reassign-partitions", "--execute", *back)
    until_placed(cluster, "moved", [KAFKAS, OURS, OTHER], {KAFKAS, OURS, OTHER})
    elected = run(tools, ours, "kafka-leader-election", "--election-type", "preferred", "--topic", "moved", "--partition", "0")
    assert "Successfully completed leader election (PREFERRED) for partitions moved-0" in elected
    fill(tools, ours, "moved", ["last"])
    read = ["--topic", "moved", "--from-beginning", "--partition", "0", "--max-messages", str(len(LINES) + 1)]
    assert run(tools, ours, "kafka-console-consumer", *read).splitlines() == [*LINES, "last"]
    kafkas = logs_of(cluster, "moved")[KAFKAS]
    cluster.until(OURS, lambda _: logs_of(cluster, "moved") == dict.fromkeys((KAFKAS, OURS, OTHER), kafkas), "all logs are equal")


def test_generated_reassignment_to_another_broker_is_carried_out(
    cluster: Cluster, tools: Tools, ours: BrokerProcess, tmp_path: Path
) -> None:
    create(cluster, tools, "planned", KAFKAS, config={"min.insync.replicas": "1"})
    fill(tools, ours, "planned")
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": "planned"}]}))
    where = ["--topics-to-move-json-file", str(wanted), "--broker-list", str(OTHER)]
    generated = run(tools, ours, "kafka-reassign-partitions", "--generate", *where)
    now, proposed = (json.loads(line) for line in generated.splitlines() if line.startswith("{"))
    assert [one["partitions"][0]["replicas"] for one in (now, proposed)] == [[KAFKAS], [OTHER]]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(proposed))
    run(tools, ours, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
    until_placed(cluster, "planned", [OTHER], {OTHER})
    read = ["--topic", "planned", "--from-beginning", "--max-messages", str(len(LINES))]
    assert run(tools, ours, "kafka-console-consumer", *read).splitlines() == LINES


def test_paused_broker_has_everything_it_missed_after_a_kill_and_restart(
    cluster: Cluster, tools: Tools, ours: BrokerProcess, tmp_path: Path
) -> None:
    create(cluster, tools, "followed", OURS, OTHER, config={"min.insync.replicas": "1"})
    create(cluster, tools, "lost", OTHER, config={"min.insync.replicas": "1"})
    create(cluster, tools, "stays", OURS, config={"min.insync.replicas": "1"})
    fill(tools, ours, "stays")
    with standing_still(cluster.broker(OTHER)):
        until_placed(cluster, "followed", [OURS, OTHER], {OURS})
        look_at_who_is_away(cluster, tools, ours, tmp_path)
    until_placed(cluster, "followed", [OURS, OTHER], {OURS, OTHER}, at=OTHER)
    until_placed(cluster, "lost", [OTHER], {OTHER})
    until_placed(cluster, "stays", [OURS], {OURS}, at=OTHER)
    logs = logs_of(cluster, "followed")
    assert logs[OURS] == logs[OTHER] != b""
    assert logs_of(cluster, "stays").keys() == {OURS}


@contextmanager
def standing_still(broker: Node) -> Iterator[None]:
    """Pause a broker with SIGSTOP; at the end kill and restart it."""
    broker.process.pause()
    try:
        yield
    finally:
        broker.process.kill()
        broker.start()


def look_at_who_is_away(cluster: Cluster, tools: Tools, ours: BrokerProcess, tmp_path: Path) -> None:
    fill(tools, ours, "followed")
    flags = [f"--{which}-partitions" for which in ("under-replicated", "at-min-isr", "under-min-isr", "unavailable")]
    outputs = all_of(*(["kafka-topics", "--describe", flag] for flag in flags), tools=tools, at=ours)
    named = [set(re.findall(r"Topic: (followed|lost|stays)", each)) for each in outputs]
    assert named == [{"followed", "lost"}, {"followed", "stays"}, {"lost"}, {"lost"}]
    election = ["--election-type", "unclean", "--topic", "lost", "--partition", "0"]
    assert "EligibleLeadersNotAvailableException" in refused(tools, ours, "kafka-leader-election", *election)
    begin_reassignment(ours, "stays", [OURS, OTHER])
    assert re.search(r"stays-0: replicas: 2,3\. adding: 3\.", run(tools, ours, "kafka-reassign-partitions", "--list"))
    copied = moves(tmp_path / "copied", stays=[OURS, OTHER])
    cancelled = run(tools, ours, "kafka-reassign-partitions", "--cancel", "--preserve-throttles", *copied)
    assert "Successfully cancelled partition reassignment for: stays-0" in cancelled


def begin_reassignment(at: BrokerProcess, topic: str, replicas: list[int]) -> None:
    """Start a reassignment by a request, which the tool refuses to do if a broker is down."""
    topics = [ReassignableTopic(topic, [ReassignablePartition(0, replicas)])]
    with Client(HOST, at.port, client_id="mover") as client:
        answer = client.call(AlterPartitionReassignmentsRequest(topics=topics))
    assert [each.error_code for each in (answer, *answer.responses[0].partitions)] == [0, 0]


def test_quorum_and_cluster_tools_describe_the_cluster(cluster: Cluster, tools: Tools, ours: BrokerProcess) -> None:
    at = ["--bootstrap-server", ours.bootstrap]
    outputs = all_of(
        ["kafka-metadata-quorum", "describe", "--status"],
        ["kafka-metadata-quorum", "describe", "--replication"],
        ["kafka-features", "describe"],
        ["kafka-broker-api-versions"],
        tools=tools,
        at=ours,
    )
    status, replication, features, versions = outputs
    assert re.search(r"LeaderId:\s+101\n", status), status
    assert {observer["id"] for observer in json.loads(status.split("CurrentObservers:")[1])} == {KAFKAS, OURS, OTHER}
    rows = [line.split() for line in replication.splitlines() if line.endswith("Observer\t")]
    assert {int(row[0]) for row in rows} == {KAFKAS, OURS, OTHER}
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", features))
    assert levels.keys() >= {"metadata.version", "kraft.version", "eligible.leader.replicas.version", "transaction.version"}
    assert sorted(re.findall(r"\(id: (\d) rack: rack-\d", versions)) == ["1", "2", "3"]
    listed = good(tools.run("kafka-cluster", "list-endpoints", *at, "--include-fenced-brokers"))
    assert re.findall(r"^(\d)\s+127.0.0.1\s.*(unfenced)", listed, re.MULTILINE) == [(str(node), "unfenced") for node in (1, 2, 3)]
    gone = tools.run("kafka-cluster", "unregister", *at, "--id", "99")
    assert "BrokerIdNotRegisteredException" in gone.err


def test_configs_of_topics_brokers_and_loggers_are_changed_at_the_responsible_node(
    cluster: Cluster, tools: Tools, ours: BrokerProcess
) -> None:
    create(cluster, tools, "configured", OURS, OTHER)
    topic = ["--entity-type", "topics", "--entity-name", "configured"]
    broker, other = ["--entity-type", "brokers", "--entity-name", "2"], ["--entity-type", "brokers", "--entity-name", "3"]
    every = ["--entity-type", "brokers", "--entity-default"]
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "3"]
    all_of(
        ["kafka-configs", "--alter", *topic, "--add-config", "retention.ms=5000"],
        ["kafka-configs", "--alter", *broker, "--add-config", "log.retention.ms=123456"],
        ["kafka-configs", "--alter", *every, "--add-config", "log.retention.ms=654321"],
        ["kafka-configs", "--alter", *loggers, "--add-config", "kafka.log.LogManager=DEBUG"],
        tools=tools,
        at=ours,
    )
    shown = all_of(
        *(["kafka-configs", "--describe", *which, "--all"] for which in (topic, broker, other)),
        ["kafka-configs", "--describe", *loggers],
        tools=tools,
        at=ours,
    )
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in shown[0]
    assert "log.retention.ms=123456 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=123456" in shown[1]
    assert "log.retention.ms=654321 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=654321" in shown[2]
    assert "kafka.log.LogManager=DEBUG" in shown[3]


def test_offsets_log_dirs_and_replicas_equal_those_at_kafkas_broker(
    cluster: Cluster, tools: Tools, ours: BrokerProcess, tmp_path: Path
) -> None:
    create(cluster, tools, "cut", OURS, KAFKAS, OTHER)
    fill(tools, ours, "cut")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": 100}]}))
    assert "low_watermark: 100" in run(tools, ours, "kafka-delete-records", "--offset-json-file", str(plan))
    earliest, latest, directories = all_of(
        ["kafka-get-offsets", "--topic", "cut", "--time", "earliest"],
        ["kafka-get-offsets", "--topic", "cut"],
        ["kafka-log-dirs", "--describe", "--topic-list", "cut"],
        tools=tools,
        at=ours,
    )
    assert (earliest.strip(), latest.strip()) == ("cut:0:100", f"cut:0:{len(LINES)}")
    brokers = json.loads(directories[directories.index("{") :])["brokers"]
    lying = {each["broker"]: [(part["size"], part["offsetLag"]) for part in each["logDirs"][0]["partitions"]] for each in brokers}
    assert lying == {node: [(len(log), 0)] for node, log in logs_of(cluster, "cut").items()}
    assert "max lag is 0 for partition cut-0 at offset" in replica_verification(tools, ours, "cut")
    (segment,) = (cluster.broker(OTHER).directory / "cut-0").glob("*.log")
    metadata = cluster.broker(OURS).directory / "__cluster_metadata-0" / "00000000000000000000.log"
    dumped = good(tools.run("kafka-dump-log", "--files", str(segment), "--print-data-log"))
    assert [line.split("payload: ")[1] for line in dumped.splitlines() if "payload: " in line] == LINES
    assert '"name":"cut"' in dumped_metadata(tools, metadata)


def test_the_metadata_log_has_the_same_records_of_a_topic_in_ottlas_directory_as_in_kafkas(
    cluster: Cluster, tools: Tools, ours: BrokerProcess
) -> None:
    create(cluster, tools, "shown", OTHER, OURS, KAFKAS)
    outputs = {}
    for node in (OURS, KAFKAS):
        log = cluster.broker(node).directory / "__cluster_metadata-0" / f"{0:020}.log"
        records = metadata_records(dumped_metadata(tools, log))
        (topic_id,) = (each["data"]["topicId"] for each in records if each["data"].get("name") == "shown")
        outputs[node] = [each for each in records if each["data"].get("topicId") == topic_id]
    assert outputs[OURS] == outputs[KAFKAS]
    assert outputs[OURS][1]["data"]["replicas"] == [OTHER, OURS, KAFKAS]


def replica_verification(tools: Tools, at: BrokerProcess, topic: str) -> str:
    """Return the tool's first report of lags; it does not end by itself."""
    wanted = ["--broker-list", at.bootstrap, "--topics-include", topic, "--report-interval-ms", "500", "--max-wait-ms", "100"]
    with subprocess.Popen(tools.command("kafka-replica-verification", *wanted), stdout=subprocess.PIPE, text=True) as running_tool:
        assert running_tool.stdout is not None
        try:
            return next((line for line in running_tool.stdout if "max lag is" in line), "")
        finally:
            running_tool.kill()


def test_kafkas_and_ottlas_brokers_describe_the_same_features_and_config_resources(cluster: Cluster) -> None:
    outputs = []
    for broker in cluster.brokers:
        with Client(HOST, broker.process.port, client_id="asker") as client:
            versions = client.call(ApiVersionsRequest("a", "1"), 4)
            resources = client.call(ListConfigResourcesRequest([4, 8])).config_resources
        outputs.append(
            (
                {each.name: (each.min_version, each.max_version) for each in versions.supported_features},
                {each.name: each.max_version_level for each in versions.finalized_features},
                sorted((each.resource_type, each.resource_name) for each in resources),
            )
        )
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("node", [KAFKAS, OURS])
def test_the_loggers_of_another_broker_are_not_described(cluster: Cluster, node: int) -> None:
    with Client(HOST, cluster.broker(node).process.port, client_id="asker") as client:
        (answer,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(BROKER_LOGGER, str(OTHER), None)])).results
    assert (answer.error_code, answer.configs) == (ErrorCode.INVALID_REQUEST, [])
