"""The cluster scenarios by name. A scenario is a function that sends a fixed sequence of requests to the brokers of one cluster; it runs
against each cluster that is compared."""

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
from client_compat.differential.scenarios.common import scenarios_in

ClusterScenario = Callable[[Nodes], None]

_MODULES = (describe, topics, configs, controller, writing, reading, offsets, coordinators, sharing, streaming, faults)
SCENARIOS: dict[str, ClusterScenario] = {f"cluster.{name}": scenario for name, scenario in scenarios_in(_MODULES, "nodes").items()}
