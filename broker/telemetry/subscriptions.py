"""The metrics subscriptions: resources of type CLIENT_METRICS, and their combined effect on one client (KIP-714).

Invariants:
* A subscription whose expressions cannot be compiled matches no client: a Kafka controller accepts Java expressions, some of
  which RE2 does not know.
* Metric names are in the order of a `java.util.HashSet`, because the subscription id is computed over them in that order.

Source: KAFKA ClientMetricsManager (createClientInstance, computeSubscriptionId), ClientMetricsInstanceMetadata.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.broker.configs.client_metrics_config import (
    CLIENT_ID,
    CLIENT_INSTANCE_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
    INTERVAL_MS,
    MATCH,
    METRICS,
    METRICS_KEYS,
    matching_patterns,
)
from ottla.broker.core.config_keys import InvalidConfig
from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.uuids import encode_uuid

logger = logging.getLogger(__name__)

_QUARTERS, _UNSIGNED, _SIGNED = Struct(">4I"), Struct(">I"), Struct(">i")

ALL: Final = "*"
PUSH_INTERVAL_MS: Final = 300_000
"""The push interval without a matching subscription, and the longest one: a subscription can only shorten it."""


class Pusher(NamedTuple):
    """The client that sent a telemetry request. `connection` is the number of its connection; `address` and `port` are the client's own."""

    connection: int
    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int

    def attributes(self, instance_id: bytes) -> dict[str, str | None]:
        """Return the client's attributes, by name, which the `match` expressions of subscriptions are compared with."""
        return {
            CLIENT_INSTANCE_ID: encode_uuid(instance_id),
            CLIENT_ID: self.client_id,
            CLIENT_SOFTWARE_NAME: self.software_name,
            CLIENT_SOFTWARE_VERSION: self.software_version,
            CLIENT_SOURCE_ADDRESS: self.address,
            CLIENT_SOURCE_PORT: str(self.port),
        }


class ClientSubscription(NamedTuple):
    """The combined subscription of one client: the metrics to push (prefixes of names, or `*` for all) and the interval. `subscription_id`
    changes with the contents and differs between clients."""

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any] | None
    """The compiled `match` expressions by attribute; None if they are invalid, so that the subscription matches no client."""

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Return whether this subscription applies to a client: every expression matches the whole text of the attribute it names."""
        if self.patterns is None:
            return False
        return all(
            (value := attributes[name]) is not None and pattern.fullmatch(value) is not None for name, pattern in self.patterns.items()
        )


class MetricsSubscriptions:
    """All metrics subscriptions of the cluster. `version` increases with each change of a subscription."""

    def __init__(self) -> None:
        self.version = 0
        self._by_name: dict[str, _Subscription] = {}

    def change(self, name: str, overrides: Mapping[str, str]) -> None:
        """Set the configuration of the subscription `name`; an empty one deletes the subscription."""
        if overrides:
            self._by_name[name] = _read(name, overrides)
        elif self._by_name.pop(name, None) is None:
            return
        self.version += 1

    def subscription_of(self, instance_id: bytes, attributes: Mapping[str, str | None]) -> ClientSubscription:
        """Return the subscription of one client: all subscriptions that match its attributes, combined."""
        interval_ms, names = PUSH_INTERVAL_MS, list[str]()
        for name in in_hash_order(self._by_name, string_hash):
            subscription = self._by_name[name]
            if subscription.matches(attributes):
                names += in_hash_order(subscription.metrics, string_hash)
                interval_ms = min(interval_ms, subscription.interval_ms)
        metrics = (ALL,) if ALL in names else tuple(in_hash_order(names, string_hash))
        return ClientSubscription(_subscription_id(metrics, interval_ms, instance_id), metrics, interval_ms)


def _read(name: str, overrides: Mapping[str, str]) -> _Subscription:
    try:
        values = {key: row.parse(overrides[key]) if key in overrides else row.default for key, row in METRICS_KEYS.items()}
    except InvalidConfig as error:  # neither Kafka's nor Ottla's controllers write an invalid value
        logger.warning("The metrics subscription %s is invalid and matches no client: %s", name, error)
        return _Subscription((), PUSH_INTERVAL_MS, None)
    metrics, interval_ms, match = values[METRICS], values[INTERVAL_MS], values[MATCH]
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    assert isinstance(match, tuple)
    try:
        return _Subscription(metrics, interval_ms, matching_patterns(match))
    except Rejected as error:
        logger.warning("The metrics subscription %s is invalid and matches no client: %s", name, error.message)
        return _Subscription(metrics, interval_ms, None)


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    mixed = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    for quarter in _QUARTERS.unpack(instance_id):  # this is Java's hash of the id
        mixed ^= quarter
    signed: int = _SIGNED.unpack(_UNSIGNED.pack(mixed))[0]
    return signed
