"""Run the cluster scenarios against three Apache Kafka brokers and three Ottla brokers, and list every difference.

Rules:
- Each cluster has its own Apache Kafka controller.
- A scenario runs against both clusters at the same time, in two threads. It leaves its cluster as it found it, with every broker in sync.
- `__consumer_offsets` and `__transaction_state` have the same replica assignment in both clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from client_compat.differential.cluster_scenarios import SCENARIOS, ClusterScenario
from client_compat.differential.cluster_scenarios.common import UnexpectedResponse, make_coordinators_topics
from client_compat.differential.known import KNOWN_OF_CLUSTERS, KnownDifference
from client_compat.differential.nodes import Nodes
from client_compat.differential.probe import Seen, Versions
from client_compat.differential.run import Report, common_versions, compare
from client_compat.kafka.cluster import Cluster, Kind, end

BROKERS = 3
Side = tuple[Cluster, Mapping[int, int] | None]
"""One of the compared clusters. The second element has the port at which clients reach each broker, by id, if it is not the broker's own
port."""


def differential_of_clusters(
    directory: Path, only: Sequence[str] = (), *, on_scenario: Callable[[str, Report], None] | None = None
) -> Report:
    """Start a cluster of Apache Kafka and one of Ottla over fresh directories under `directory`, run the cluster scenarios against both,
    and return the differences. `only`: words; run only scenarios with one of them in their name. Raises KafkaMissing or BrokerFailed if a
    cluster cannot be started."""
    kafka, ours = (Cluster(directory / kind, [kind] * BROKERS) for kind in (Kind.KAFKA, Kind.OTTLA))
    report = Report(kafka.version)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Cluster.start, (kafka, ours)))
            versions = common_versions(*(cluster.brokers[0].process.port for cluster in (kafka, ours)))
            play_all(report, versions, ((kafka, None), (ours, None)), only, known=KNOWN_OF_CLUSTERS, on_scenario=on_scenario)
    finally:
        end(node.process for cluster in (kafka, ours) for node in cluster.nodes)
    return report


def play_all(
    report: Report,
    versions: Versions,
    sides: tuple[Side, Side],
    only: Sequence[str] = (),
    *,
    known: Sequence[KnownDifference] = (),
    on_scenario: Callable[[str, Report], None] | None = None,
) -> None:
    """Run each scenario at both clusters at the same time, and add the differences of their responses to the report. `sides` has Apache
    Kafka's cluster first; each comes with the ports at which clients reach its brokers, or None for the brokers' own ports. `only`: words;
    run only scenarios with one of them in their name. `known`: the deliberate differences."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda side: make_coordinators_topics(Nodes(side[0], versions, side[1])), sides))
        for name, scenario in SCENARIOS.items():
            if only and not any(word in name for word in only):
                continue
            theirs, mine = pool.map(partial(_answers, scenario), [Nodes(cluster, versions, ports) for cluster, ports in sides])
            report.scenarios.append(name)
            report.answers += len(theirs)
            report.differences += compare(name, theirs, mine, known)
            if on_scenario is not None:
                on_scenario(name, report)


def _answers(scenario: ClusterScenario, nodes: Nodes) -> list[Seen]:
    """Run a scenario at one cluster, and return the responses that it recorded. If the scenario fails, the last element describes the
    error, so that it differs from the other cluster's responses."""
    try:
        scenario(nodes)
    except (TimeoutError, UnexpectedResponse) as error:
        nodes.seen.append(Seen("(the end)", "", -1, f"{nodes.cluster.brokers[0].kind}: {error}"))
    finally:
        nodes.close()
    return nodes.seen
