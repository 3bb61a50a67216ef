"""Compare Ottla with Apache Kafka by requests that describe the cluster, its log directories and the supported APIs."""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import batch, create, produce
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest


def cluster(probe: Probe) -> None:
    for version in probe.range(ApiKey.DESCRIBE_CLUSTER):
        for operations in (False, True):
            for kind in (1, 2, 7) if version >= 1 else (1,):
                probe.ask(f"endpoints of kind {kind}", DescribeClusterRequest(operations, kind), version)


def log_dirs(probe: Probe) -> None:
    create(probe, "sizes", 2)
    produce(probe, "records", "sizes", batch(b"a", b"b"))
    for version in probe.range(ApiKey.DESCRIBE_LOG_DIRS):
        for label, topics in {
            "two partitions": [DescribableLogDirTopic("sizes", [0, 1])],
            "unknown": [DescribableLogDirTopic("nowhere", [0])],
            "unknown partition": [DescribableLogDirTopic("sizes", [0, 9])],
            "none": [],
        }.items():
            probe.ask(label, DescribeLogDirsRequest(topics), version)


def api_versions(probe: Probe) -> None:
    """Ask for the supported APIs and features, also with an invalid client software name or version."""
    for version in probe.range(ApiKey.API_VERSIONS):
        probe.ask("offered", ApiVersionsRequest("ottla", "1"), version)
    for name, number in (("", "1"), ("ottla", ""), ("a b", "1"), ("-x", "1"), ("x", "1 2")):
        probe.ask(f"software {name!r} {number!r}", ApiVersionsRequest(name, number), 4)
