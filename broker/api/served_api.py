"""The facts about one API that are needed before its handler is imported: a row of `api_table`."""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import NamedTuple

from ottla.protocol.api_keys import ApiKey


class ListenerType(Flag):
    """The listeners that serve an API (KAFKA ApiMessageType.ListenerType)."""

    BROKER = auto()
    CONTROLLER = auto()


class Forwarded(Enum):
    """Whether a cluster broker sends a request to the controller in an Envelope (KIP-590; KAFKA ApiKeys.forwardable)."""

    NEVER = auto()
    """The node that receives the request answers it. A controller rejects it in an Envelope."""
    IN_PART = auto()
    """The broker's handler, if there is one, forwards what it does not decide itself."""
    ALWAYS = auto()
    """A cluster broker forwards every request. A handler for the broker's listener is used on a standalone node only."""


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

    @property
    def module(self) -> str:
        """The name of the handler's module."""
        return f"k{self.key:02d}_{self.key.name.lower()}"
