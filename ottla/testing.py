"""Tools for tests: a broker or a cluster in the test's own process, a broker in a container, scripted faults, a movable clock, and a check
that every record was delivered exactly once.

The names here are stable (docs/public-api.md). Each is imported on first access; `OttlaContainer` needs the extra `containers`, the others
need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla._lazy import Extra, exports

__all__ = [
    "CONTROLLER",
    "AclControl",
    "Anomaly",
    "AtOffset",
    "ClockControl",
    "ClusterClockControl",
    "ClusterTopicControl",
    "Counters",
    "FaultControl",
    "FaultRule",
    "FaultSyntax",
    "History",
    "InProcessBroker",
    "InProcessCluster",
    "InProcessGateway",
    "Mark",
    "NotExactlyOnce",
    "OttlaContainer",
    "Rejected",
    "SettingsError",
    "StartError",
    "TopicControl",
    "VirtualClock",
]

if TYPE_CHECKING:
    from ottla.broker.core.clock import VirtualClock
    from ottla.broker.core.rejected import Rejected
    from ottla.broker.core.settings_load import SettingsError
    from ottla.broker.faults.rules import FaultRule, FaultSyntax
    from ottla.broker.process import StartError
    from ottla.broker.storage.as_of import AtOffset
    from ottla.broker.storage.marks import Mark
    from ottla.broker.testing.acl_control import AclControl
    from ottla.broker.testing.anomalies import Anomaly
    from ottla.broker.testing.cluster import InProcessCluster
    from ottla.broker.testing.cluster_controls import ClusterClockControl, ClusterTopicControl
    from ottla.broker.testing.cluster_nodes import CONTROLLER
    from ottla.broker.testing.container import OttlaContainer
    from ottla.broker.testing.controls import ClockControl, FaultControl, TopicControl
    from ottla.broker.testing.counters import Counters
    from ottla.broker.testing.history import History
    from ottla.broker.testing.in_process import InProcessBroker
    from ottla.broker.testing.in_process_gateway import InProcessGateway
    from ottla.broker.testing.verdict import NotExactlyOnce
else:  # type checkers do not see this __getattr__, with which they would accept any name
    __getattr__, __dir__ = exports(
        __name__,
        {
            "AclControl": "broker.testing.acl_control",
            "Anomaly": "broker.testing.anomalies",
            "AtOffset": "broker.storage.as_of",
            "CONTROLLER": "broker.testing.cluster_nodes",
            "ClockControl": "broker.testing.controls",
            "ClusterClockControl": "broker.testing.cluster_controls",
            "ClusterTopicControl": "broker.testing.cluster_controls",
            "Counters": "broker.testing.counters",
            "FaultControl": "broker.testing.controls",
            "FaultRule": "broker.faults.rules",
            "FaultSyntax": "broker.faults.rules",
            "History": "broker.testing.history",
            "InProcessBroker": "broker.testing.in_process",
            "InProcessCluster": "broker.testing.cluster",
            "InProcessGateway": "broker.testing.in_process_gateway",
            "Mark": "broker.storage.marks",
            "NotExactlyOnce": "broker.testing.verdict",
            "OttlaContainer": "broker.testing.container",
            "Rejected": "broker.core.rejected",
            "SettingsError": "broker.core.settings_load",
            "StartError": "broker.process",
            "TopicControl": "broker.testing.controls",
            "VirtualClock": "broker.core.clock",
        },
        {"OttlaContainer": Extra("containers", "testcontainers")},
    )
