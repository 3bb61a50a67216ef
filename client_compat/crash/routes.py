"""Connections of a test client to the brokers of a cluster, of which any may be down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest

TIMEOUT_S = 5.0


class MustReconnect(Exception):
    """Raised when the client must close its connections and look up coordinator and leaders again.

    Reasons: a response has an error code, no broker can be reached, a leader is unknown, or the assigned partitions have changed.
    """


class Routes:
    """Finds leaders and coordinators through one of the brokers at `ports`. Use as a context manager; all methods raise OSError if a
    connection fails, ProtocolError for a malformed response, or MustReconnect."""

    def __init__(self, ports: Sequence[int], rng: random.Random) -> None:
        self._ports = ports
        self._random = rng
        self._stack = ExitStack()
        self._clients: dict[int, Client] = {}

    def __enter__(self) -> Routes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def at(self, port: int) -> Client:
        """Return the connection to the broker at this port, which is opened at the first call."""
        if port not in self._clients:
            self._clients[port] = self._stack.enter_context(Client(HOST, port, timeout_s=TIMEOUT_S))
        return self._clients[port]

    def coordinator(self, group: str) -> Client:
        """Return the connection to a group's coordinator."""
        (found,) = self._any().call(FindCoordinatorRequest(coordinator_keys=[group]), version=6).coordinators
        if found.error_code:
            raise MustReconnect
        return self.at(found.port)

    def leaders(self, topic: str) -> dict[int, Client]:
        """Return a connection to the leader of each partition of the topic, by partition index."""
        answer: Any = self._any().call(MetadataRequest([MetadataRequestTopic(name=topic)], False), version=12)
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
        if answer.topics[0].error_code or not leaders.keys() or not ports.keys() >= set(leaders.values()):
            raise MustReconnect
        return {index: self.at(ports[leader]) for index, leader in leaders.items()}

    def _any(self) -> Client:
        for port in self._random.sample(self._ports, len(self._ports)):
            try:
                return self.at(port)
            except OSError:
                continue
        raise MustReconnect
