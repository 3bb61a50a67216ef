"""The cluster scenarios by name. Each takes the nodes of one cluster and sends every cluster the same requests."""

from __future__ import annotations

from collections.abc import Callable

from client_compat.differential.cluster_scenarios import (
    configs,
    controller,
    coordinators,
    describe,
    faults,
    offsets,
    reading,
    sharing,
    streaming,
    topics,
    writing,
)
from client_compat.differential.nodes import Nodes

ClusterScenario = Callable[[Nodes], None]

SCENARIOS: dict[str, ClusterScenario] = {
    f"cluster.{module.__name__.rpartition('.')[2]}.{name}": scenario
    for module in (describe, topics, configs, controller, writing, reading, offsets, coordinators, sharing, streaming, faults)
    for name, scenario in module.SCENARIOS.items()
}
