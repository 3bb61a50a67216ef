"""Apache Kafka's own command-line tools, run from its jars under the names that they have in `bin/`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command

TIMEOUT_S = 60.0

MAIN_CLASSES: Mapping[str, str] = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
}


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a tool's run: exit code and output."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Tools:
    """Kafka's command-line tools of one version. Methods may download the jars; they raise `KafkaMissing` if the jars or Java are not
    available."""

    version: str = field(default_factory=default_version)

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Return the complete command that runs a tool, for callers that start the process themselves."""
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
        return java_command(self.version, MAIN_CLASSES[tool], *arguments, properties=quiet)

    def run(self, tool: str, *arguments: str, text: str = "", timeout_s: float = TIMEOUT_S) -> Done:
        """Run a tool with `text` as its standard input; return its exit code and output. Raises subprocess.TimeoutExpired after `timeout_s`
        seconds."""
        done = subprocess.run(self.command(tool, *arguments), input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
        return Done(done.returncode, done.stdout, done.stderr)
