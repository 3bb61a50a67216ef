"""The responses of `/telemetry`: the latest metrics that each client pushed, decoded from OTLP to OTLP's own JSON format.

Rules that hold inside:
- A payload that cannot be decoded is reported with the reason; the other payloads are still returned.
- One response decodes at most TELEMETRY_RESPONSE_BYTES and TELEMETRY_RESPONSE_PARTS. It is decoded and serialized on a thread, so that the
  broker's loop is not blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from ottla.broker.admin.protobuf_parts import parts_of
from ottla.broker.core import limits
from ottla.broker.telemetry.instances import ClientTelemetry
from ottla.broker.telemetry.payloads import Payload
from ottla.protocol.records.compression import decompress
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.uuids import encode_uuid


class TelemetryOut(BaseModel):
    """One client instance and the metrics that it pushed last (KIP-714)."""

    client_instance_id: str
    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int
    known: bool = Field(description="whether the broker still knows the instance: it forgets it with the connection, its last push later")
    terminating: bool = Field(description="whether this was its last push")
    received_ms: int
    push_interval_ms: int
    subscription_id: int
    requested_metrics: list[str]
    compression: str
    compressed_bytes: int
    size_bytes: int
    otlp: dict[str, Any] | None = Field(description="MetricsData in the JSON of OTLP: resourceMetrics, scopeMetrics, metrics")
    not_decoded: str | None = Field(default=None, description="why `otlp` is missing")


class TelemetryPage(BaseModel):
    """All client instances with the metrics that they pushed last, the latest push first."""

    instances: int = Field(description="client instances that the broker knows now, whether or not they have pushed")
    clients: list[TelemetryOut]


async def page(telemetry: ClientTelemetry) -> str:
    """Return a `TelemetryPage` as JSON: the last metrics of each client instance that has pushed any, the latest push first."""
    known = [(payload, payload.instance_id in telemetry) for payload in telemetry.payloads.newest_first()]
    return await asyncio.to_thread(_page, len(telemetry), known)


async def one(telemetry: ClientTelemetry, payload: Payload) -> str:
    """Return a `TelemetryOut` as JSON: the metrics of one push by a client instance."""
    known = payload.instance_id in telemetry
    return await asyncio.to_thread(
        lambda: _described(payload, _decoded(payload, limits.TELEMETRY_RESPONSE_PARTS), known=known).model_dump_json()
    )


def _page(instances: int, payloads: Sequence[tuple[Payload, bool]]) -> str:
    left, parts_left, clients = limits.TELEMETRY_RESPONSE_BYTES, limits.TELEMETRY_RESPONSE_PARTS, []
    for payload, known in payloads:
        left -= payload.size_bytes
        decoded = _Decoded(why=f"left out because the response is full: request /telemetry/{encode_uuid(payload.instance_id)}")
        if left >= 0 and parts_left >= 0:
            decoded = _decoded(payload, parts_left)
            parts_left -= decoded.parts
        clients.append(_described(payload, decoded, known=known))
    return TelemetryPage(instances=instances, clients=clients).model_dump_json()


class _Decoded(NamedTuple):
    """The result of decoding a client's pushed metrics: the OTLP as JSON, or the reason (`why`) if it could not be decoded; `parts` is the
    number of messages and values in it.
    """

    otlp: dict[str, Any] | None = None
    why: str | None = None
    parts: int = 0


def _described(payload: Payload, decoded: _Decoded, *, known: bool) -> TelemetryOut:
    pusher, subscription = payload.pusher, payload.subscription
    return TelemetryOut(
        client_instance_id=encode_uuid(payload.instance_id),
        client_id=pusher.client_id,
        software_name=pusher.software_name,
        software_version=pusher.software_version,
        address=pusher.address,
        port=pusher.port,
        known=known,
        terminating=payload.terminating,
        received_ms=payload.received_ms,
        push_interval_ms=subscription.push_interval_ms,
        subscription_id=subscription.subscription_id,
        requested_metrics=list(subscription.metrics),
        compression=payload.codec.name.lower(),
        compressed_bytes=len(payload.data),
        size_bytes=payload.size_bytes,
        otlp=decoded.otlp,
        not_decoded=decoded.why,
    )


def _decoded(payload: Payload, parts_max: int) -> _Decoded:
    try:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 # an extra, imported with the first request
        from google.protobuf.message import DecodeError  # noqa: PLC0415 # an extra, imported with the first request
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415 # an extra, imported with the first request
    except ImportError as error:
        return _Decoded(why=f"needs opentelemetry-proto: pip install 'ottla[telemetry]' ({error})")
    message = MetricsData()
    try:
        message.ParseFromString(bytes(decompress(payload.codec, payload.data, payload.size_bytes)))
        if (parts := parts_of(message, parts_max)) > parts_max:
            return _Decoded(why=f"has more than {parts_max} messages and values", parts=parts)
        return _Decoded(MessageToDict(message, use_integers_for_enums=True), parts=parts)
    except (DecodeError, RecordsError, ValueError, RecursionError) as error:
        return _Decoded(why=f"is no MetricsData of OTLP: {error}")
