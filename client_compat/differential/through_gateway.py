"""Compare Apache Kafka with Apache Kafka behind `ottla gateway`: each scenario runs against two fresh clusters of the same kind.

Rules:
- A difference is accepted only if two clusters of Apache Kafka also differ in it without a gateway, which changes addresses only.
- Ports in responses are replaced by the id of their broker. If the gateway forwards a broker's own port instead of its own, this is
  reported as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from client_compat.differential import access, clusters, run
from client_compat.differential.access import secured_kafka
from client_compat.differential.known import OTHER, KnownDifference
from client_compat.differential.logins import LOG_INS, Pair, differential_of_logins, kafka_with_sasl
from client_compat.differential.run import AT_ONCE, FORMAT_OPTIONS, Report, common_versions, telemetry
from client_compat.differential.signed import Issuer
from client_compat.kafka.cluster import Cluster, end, seen_at
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support.brokers import HOST, gateway
from client_compat.support.kerberos import Realm

OnScenario = Callable[[str, Report], None]
OF_TWO_CLUSTERS = (
    KnownDifference(OTHER, "API_VERSIONS", "finalized_features_epoch"),
    KnownDifference(OTHER, "DESCRIBE_QUORUM", r".*(high_watermark|log_end_offset)"),
    KnownDifference(
        OTHER,
        "DESCRIBE_CONFIGS",
        r".*configs\[((advertised\.)?listeners|controller\.quorum\.bootstrap\.servers|log\.dirs)\]\.(value|synonyms\[[^\]]+\]\.value)",
    ),
)
"""Differences between any two clusters of Apache Kafka, because each has its own metadata log, ports and directories. They are accepted
with a gateway, too."""


def differential_through_gateway(directory: Path, only: Sequence[str] = (), *, on_scenario: OnScenario | None = None) -> Report:
    """Compare two nodes of Apache Kafka, the second behind a gateway. Raises KafkaMissing or BrokerFailed."""
    reporters, classes = telemetry()
    nodes = [ReferenceBroker(directory / name, {**reporters, **AT_ONCE}, classes=classes) for name in ("kafka", "kafka-behind")]
    report = Report(nodes[0].version)
    for node in nodes:
        node.format(options=FORMAT_OPTIONS)
    direct, behind = nodes
    with direct, behind, gateway(behind.bootstrap, directory / "gateway.log") as between:
        ports = direct.port, between.port
        run.play_all(report, common_versions(*ports), ports, only, known=OF_TWO_CLUSTERS, on_scenario=on_scenario)
    return report


def differential_of_clusters_through_gateway(directory: Path, only: Sequence[str] = (), *, on_scenario: OnScenario | None = None) -> Report:
    """Compare two clusters of three Apache Kafka brokers, the second behind a gateway. Raises KafkaMissing or BrokerFailed."""
    direct, behind = both = [Cluster(directory / name) for name in ("kafka", "kafka-behind")]
    report = Report(direct.version)
    between = gateway(behind.bootstrap, directory / "gateway.log")
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        stack.callback(lambda: end(node.process for cluster in both for node in cluster.nodes))
        list(pool.map(Cluster.start, both))
        stack.enter_context(between)
        ports = {broker.node_id: broker.port for broker in seen_at(between.port).brokers}
        versions = common_versions(direct.brokers[0].process.port, between.port)
        clusters.play_all(report, versions, ((direct, None), (behind, ports)), only, known=OF_TWO_CLUSTERS, on_scenario=on_scenario)
    return report


def differential_of_access_through_gateway(
    directory: Path, pairs: int = 2_000, *, on_case: Callable[[int, Report], None] | None = None
) -> Report:
    """Compare authorization of two nodes of Apache Kafka, the second behind a gateway. Raises KafkaMissing or BrokerFailed."""
    (direct, secure), (behind, secure_behind) = (secured_kafka(directory / name) for name in ("kafka-acls", "kafka-acls-behind"))
    report = Report(direct.version)
    with direct, behind, _gateways(directory, {"PLAINTEXT": behind.port, "SECURE": secure_behind}) as ports:
        access.ask_all(report, ((direct.port, secure), (ports["PLAINTEXT"], ports["SECURE"])), pairs, on_case=on_case)
    return report


def differential_of_logins_through_gateway(directory: Path, log_ins: int = LOG_INS) -> Report:
    """Compare log-ins at two nodes of Apache Kafka, the second behind a gateway for each listener. Raises KafkaMissing or BrokerFailed.

    GSSAPI is left out, because a gateway refuses it.
    """
    return differential_of_logins(directory, log_ins, pair=_pair)


@contextmanager
def _pair(directory: Path, issuer: Issuer, realm: Realm | None) -> Iterator[Pair]:
    (direct, theirs), (behind, ports) = (kafka_with_sasl(directory / name, issuer, realm) for name in ("kafka", "kafka-behind"))
    with direct, behind, _gateways(directory, {"PLAINTEXT": behind.port, **ports}) as fronts:
        plain = fronts.pop("PLAINTEXT")
        yield direct.version, theirs, fronts, (direct.port, plain)


@contextmanager
def _gateways(directory: Path, listeners: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Run a gateway in front of each listener until the `with` block ends. `listeners`: the listeners' ports by name. Yield the gateways'
    ports by the same names."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(gateway(f"{HOST}:{port}", directory / f"gateway-{name}.log")).port for name, port in listeners.items()
        }
