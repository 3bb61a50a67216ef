"""For your tests: a broker or a cluster in the test's own process, a broker in a container, faults on demand, a clock that moves, and a
verdict.

What stands here stays (docs/public-api.md). Each name is imported when it is first asked for: `OttlaContainer` needs the extra
`containers`, all others nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla._lazy import exports

__all__ = [
    "Anomaly",
    "ClockControl",
    "ClusterClockControl",
    "ClusterTopicControl",
    "Counters",
    "FaultControl",
    "FaultSyntax",
    "History",
    "InProcessBroker",
    "InProcessCluster",
    "NotExactlyOnce",
    "OttlaContainer",
    "TopicControl",
]

if TYPE_CHECKING:
    from ottla.broker.faults.rules import FaultSyntax
    from ottla.broker.testing.anomalies import Anomaly
    from ottla.broker.testing.cluster import InProcessCluster
    from ottla.broker.testing.cluster_controls import ClusterClockControl, ClusterTopicControl
    from ottla.broker.testing.container import OttlaContainer
    from ottla.broker.testing.controls import ClockControl, FaultControl, TopicControl
    from ottla.broker.testing.counters import Counters
    from ottla.broker.testing.history import History
    from ottla.broker.testing.in_process import InProcessBroker
    from ottla.broker.testing.verdict import NotExactlyOnce
else:  # with a __getattr__, type checkers would take any name for one of these
    __getattr__ = exports(
        __name__,
        {
            "Anomaly": "broker.testing.anomalies",
            "ClockControl": "broker.testing.controls",
            "ClusterClockControl": "broker.testing.cluster_controls",
            "ClusterTopicControl": "broker.testing.cluster_controls",
            "Counters": "broker.testing.counters",
            "FaultControl": "broker.testing.controls",
            "FaultSyntax": "broker.faults.rules",
            "History": "broker.testing.history",
            "InProcessBroker": "broker.testing.in_process",
            "InProcessCluster": "broker.testing.cluster",
            "NotExactlyOnce": "broker.testing.verdict",
            "OttlaContainer": "broker.testing.container",
            "TopicControl": "broker.testing.controls",
        },
    )
