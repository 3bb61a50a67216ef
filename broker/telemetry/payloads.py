"""The last thing that each client pushed, for whoever asks at the admin port: within limits, and beyond the end of its connection."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ottla.broker.cluster.topic_ids import id_text
from ottla.broker.core import limits
from ottla.broker.telemetry.subscriptions import Pusher, Wanted
from ottla.protocol.records.compression import Codec


class Payload(NamedTuple):
    """What came in one push. `data` are OTLP's MetricsData, as the client compressed them; `size_bytes` is what they decompress to."""

    instance_id: bytes
    pusher: Pusher
    wanted: Wanted
    received_ms: int
    terminating: bool
    codec: Codec
    data: bytes
    size_bytes: int

    @property
    def held_bytes(self) -> int:
        """What it holds of what its client chose the length of."""
        return len(self.data) + sum(len(text or "") for text in self.pusher[1:4])


class Payloads:
    """The last of each instance: at most TELEMETRY_INSTANCES of them and TELEMETRY_KEPT_BYTES. The oldest go first."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._by_instance: OrderedDict[bytes, Payload] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_instance)

    def keep(self, payload: Payload) -> None:
        """In the place of what the instance pushed before."""
        self._drop(payload.instance_id)
        self._by_instance[payload.instance_id] = payload
        self.held_bytes += payload.held_bytes
        while len(self._by_instance) > limits.TELEMETRY_INSTANCES or self.held_bytes > limits.TELEMETRY_KEPT_BYTES:
            self._drop(next(iter(self._by_instance)))

    def of(self, client_instance_id: str) -> Payload | None:
        """What the instance of that id, as Kafka writes it, pushed last, if it is still kept."""
        return next((payload for payload in self._by_instance.values() if id_text(payload.instance_id) == client_instance_id), None)

    def newest_first(self) -> list[Payload]:
        """All of them."""
        return list(reversed(self._by_instance.values()))

    def _drop(self, instance_id: bytes) -> None:
        payload = self._by_instance.pop(instance_id, None)
        if payload is not None:
            self.held_bytes -= payload.held_bytes
