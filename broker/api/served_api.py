"""The facts about one API that are needed before its handler is imported: a row of `api_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, Flag, auto
from typing import NamedTuple

from ottla.protocol.api_keys import ApiKey


class ListenerType(Flag):
    """The listeners that serve an API (KAFKA ApiMessageType.ListenerType)."""

    BROKER = auto()
    CONTROLLER = auto()


class Forwarded(Enum):
    """Whether a broker forwards a request to the controller: in an Envelope (KIP-590; KAFKA ApiKeys.forwardable), or on a standalone node
    by a call."""

    NEVER = auto()
    """The node that receives the request answers it. A controller rejects it in an Envelope."""
    IN_PART = auto()
    """The broker's handler decides some requests, or parts of them, and forwards the rest. (AllocateProducerIds has no such handler.)"""
    ALWAYS = auto()
    """A broker forwards every request."""


class Split(NamedTuple):
    """How a request with many elements is handled in parts (`ottla.broker.api.request_parts`)."""

    request_path: str
    """The path of the request's elements: `topics.partitions`."""
    response_path: str
    """The path of their results in the response."""
    keys: Sequence[str] = ()
    """For each array on the path, the names of the fields that identify an element, such as `name topic_id` (empty if the elements are
    plain values). Given only if a request with duplicate elements differs from one without."""


class ServedApi(NamedTuple):
    """One API. Versions are inclusive. `advertised_min` is below `min_version` only for Produce (`k00_produce` has the reason)."""

    key: ApiKey
    min_version: int
    max_version: int
    advertised_min: int
    listeners: ListenerType
    forwarded: Forwarded = Forwarded.NEVER
    throttled: bool = True
    """Whether a request counts against the client's quota; not if only other nodes send it (KAFKA ApiKeys.clusterAction)."""
    needs_telemetry: bool = False
    """Whether the API is served only with `client.telemetry.enable`."""
    splits: Sequence[Split] = ()
    """How a large request is split; the first that applies is used, because older versions may have their elements elsewhere."""
    array_limits: Mapping[str, int] = {}
    """The maximum sizes of arrays that are handled in one step; of a request that is split, the maximum for one element. Kafka's controller
    accepts 10,000 records in one request (MAX_RECORDS_PER_USER_OP).
    """

    @property
    def module(self) -> str:
        """The name of the module that contains the API's handler."""
        return f"k{self.key:02d}_{self.key.name.lower()}"
