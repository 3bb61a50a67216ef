"""Stores the last metrics that each client instance pushed (its payload, KIP-714), which the admin port shows. Payloads are limited in
number and bytes, and stay after the client has disconnected."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ottla.broker.core import limits
from ottla.broker.telemetry.subscriptions import ClientSubscription, Pusher
from ottla.protocol.records.compression import Codec
from ottla.protocol.uuids import encode_uuid


class Payload(NamedTuple):
    """The metrics of one push by a client instance. `data` is OTLP MetricsData as the client compressed it; `size_bytes` is its
    decompressed size."""

    instance_id: bytes
    pusher: Pusher
    subscription: ClientSubscription
    received_ms: int
    terminating: bool
    codec: Codec
    data: bytes
    size_bytes: int

    @property
    def held_bytes(self) -> int:
        """The size in bytes of the payload and of the client's own text fields, for the memory limit."""
        return len(self.data) + sum(len(text or "") for text in self.pusher[1:4])


class Payloads:
    """The metrics that each client instance pushed last: at most TELEMETRY_INSTANCES payloads with TELEMETRY_KEPT_BYTES in all; the oldest
    are removed."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._by_instance: OrderedDict[bytes, Payload] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_instance)

    def keep(self, payload: Payload) -> None:
        """Store an instance's pushed metrics in place of those that it pushed before."""
        self._drop(payload.instance_id)
        self._by_instance[payload.instance_id] = payload
        self.held_bytes += payload.held_bytes
        while len(self._by_instance) > limits.TELEMETRY_INSTANCES or self.held_bytes > limits.TELEMETRY_KEPT_BYTES:
            self._drop(next(iter(self._by_instance)))

    def of(self, client_instance_id: str) -> Payload | None:
        """Return the metrics that the client instance with this id (in Kafka's text form) pushed last, None if there are none."""
        return next((payload for payload in self._by_instance.values() if encode_uuid(payload.instance_id) == client_instance_id), None)

    def newest_first(self) -> list[Payload]:
        """Return the last pushed metrics of all client instances, newest first."""
        return list(reversed(self._by_instance.values()))

    def _drop(self, instance_id: bytes) -> None:
        payload = self._by_instance.pop(instance_id, None)
        if payload is not None:
            self.held_bytes -= payload.held_bytes
