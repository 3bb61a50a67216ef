"""The struct with the address of a partition's leader, which the responses to Produce, Fetch, ShareFetch and ShareAcknowledge have in
common."""

from __future__ import annotations

from ottla.protocol.schema import int32, string, wire_struct


@wire_struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
