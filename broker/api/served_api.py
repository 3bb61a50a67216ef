"""The facts about one API that are needed before its handler's module is imported, such as its versions. `api_table` has one row of them
for each API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, Flag, auto
from typing import NamedTuple

from ottla.protocol.api_keys import ApiKey


class ListenerType(Flag):
    """The kinds of listeners that serve an API: those of brokers, those of controllers, or both (KAFKA ApiMessageType.ListenerType)."""

    BROKER = auto()
    CONTROLLER = auto()


class Forwarded(Enum):
    """Whether a broker forwards a request to the controller: in an Envelope (KIP-590; KAFKA ApiKeys.forwardable), or on a standalone node
    by a call."""

    NEVER = auto()
    """A broker never forwards the request, and a controller rejects it if it arrives in an Envelope."""
    IN_PART = auto()
    """The broker's handler decides some requests, or parts of them, and forwards the rest. (AllocateProducerIds has this value, too: no
    broker serves it, but Kafka's controller accepts it in an Envelope.)
    """
    ALWAYS = auto()
    """A broker forwards every request."""


class Split(NamedTuple):
    """How a request with many elements is handled in parts (`ottla.broker.api.request_parts`)."""

    request_path: str
    """The path of the request's array of elements that are divided into parts, such as `topics.partitions`."""
    response_path: str
    """The path of the elements' results in the response, such as `responses.partitions`."""
    keys: Sequence[str] = ()
    """For each array on the path, the names of the fields that identify an element, such as `name topic_id` (empty if the elements are
    plain values). Given only if a request with duplicate elements differs from one without."""


class ServedApi(NamedTuple):
    """One served API. Its range of versions includes both ends. ApiVersions lists the versions from `advertised_min` on, which is below
    `min_version` only for Produce (`k00_produce` has the reason)."""

    key: ApiKey
    min_version: int
    max_version: int
    advertised_min: int
    listeners: ListenerType
    forwarded: Forwarded = Forwarded.NEVER
    throttled: bool = True
    """Whether requests count against the client's request quota. False for an API that only other nodes use (KAFKA ApiKeys.clusterAction).
    """
    needs_telemetry: bool = False
    """Whether the API is served only with `client.telemetry.enable`."""
    splits: Sequence[Split] = ()
    """The ways to split a large request into parts. The first one whose array is not empty in the request is used, because older versions
    may have their elements in another array. If there are none, requests are not split.
    """
    array_limits: Mapping[str, int] = {}
    """The maximum number of elements in an array of a request, by the path of the array. In a request that is split into parts, it applies
    to one element of the outermost array. A request with more elements closes its connection, because handling it in one step would block
    the event loop. (Kafka's controller accepts 10,000 records in one request, MAX_RECORDS_PER_USER_OP.)
    """

    @property
    def module(self) -> str:
        """The name of the module that contains the API's handler."""
        return f"k{self.key:02d}_{self.key.name.lower()}"
