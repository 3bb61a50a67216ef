"""Differences between kafka-python 3 and 2.0, which the program also supports: time limits of calls, and the leader epoch of a committed
offset."""

from __future__ import annotations

from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata

from client_compat.clients.control import Request

BEFORE_3 = int(kafka.__version__.split(".")[0]) < 3


def limit(request: Request) -> dict[str, Any]:
    """Return the keyword argument that limits the call's time to the request's limit; empty if this version of kafka-python has none."""
    return {} if BEFORE_3 else {"timeout_ms": request.timeout_s * 1000}


def committed(offset: int, metadata: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, *(() if BEFORE_3 else (-1,)))
