"""The standalone scenarios by name. A scenario is a function that sends a fixed sequence of requests with a probe (a client that records
the responses); it runs against each broker that is compared."""

from __future__ import annotations

from collections.abc import Callable

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios import (
    administration,
    beginning,
    configs,
    consumer_groups,
    controlling,
    describe,
    fetch,
    group_changes,
    group_oddities,
    groups,
    odd_requests,
    offsets,
    produce,
    quotas,
    share_dead_letters,
    share_fetch,
    share_groups,
    share_state,
    streams_groups,
    telemetry,
    too_large,
    topics,
    transactions,
    users,
)
from client_compat.differential.scenarios.common import scenarios_in

Scenario = Callable[[Probe], None]

SCENARIOS: dict[str, Scenario] = scenarios_in(
    [
        beginning,
        topics,
        produce,
        fetch,
        offsets,
        groups,
        consumer_groups,
        group_changes,
        group_oddities,
        configs,
        describe,
        transactions,
        quotas,
        share_fetch,
        share_dead_letters,
        share_groups,
        share_state,
        streams_groups,
        users,
        controlling,
        administration,
        telemetry,
        too_large,
        odd_requests,
    ],
    "probe",
)

OF_NEWEST = frozenset(name for name in SCENARIOS if name.startswith("administration."))
"""Scenarios about details that older releases decide in other ways. They are only compared with Ottla's own release."""

BEFORE_COORDINATORS = frozenset(name for name in SCENARIOS if name.startswith("beginning."))
"""Scenarios that need a broker without `__consumer_offsets` and `__transaction_state`. All others start when both topics exist."""
