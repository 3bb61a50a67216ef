"""The Kafka client that `ottla verify` uses itself, as opposed to the client of the program under test. It finds leaders and coordinators
like any client, and keeps a connection to each broker.

Rules:
- Fault rules do not apply to its requests, and observers do not count them; they are recognised by the client id `VERIFIER_CLIENT`.
- If a broker is down or does not answer, the request raises OSError, and all connections are opened anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.broker.verification.request_observer import VERIFIER_CLIENT
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.schema import Message

BY_GROUP: Final = 0
BY_TRANSACTION: Final = 1
_TRIES: Final = 2_000
_PAUSE_S: Final = 0.005
_FIND_COORDINATOR, _METADATA = 3, 8


def connect_plainly(host: str, port: int) -> Client:
    """Connect to a broker without TLS and authentication, and return the client. Raises OSError if the connection fails."""
    return Client(host, port, client_id=VERIFIER_CLIENT)


class VerifierClient:
    """A blocking Kafka client that finds leaders and coordinators by itself. `bootstrap` returns `host:port` of each broker that is up; the
    client connects only to these. With `elsewhere`, the client also connects to other brokers that Metadata responses name."""

    def __init__(
        self, bootstrap: Callable[[], Sequence[str]], connect: Callable[[str, int], Client] = connect_plainly, *, elsewhere: bool = False
    ) -> None:
        self._bootstrap = bootstrap
        self._connect = connect
        self._elsewhere = elsewhere
        self._clients: dict[str, Client] = {}

    def ask(self, at: Callable[[], Client], request: Message, version: int, pick: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Send a request, and repeat it while the response has a retriable error. `at` returns the connection to use. `pick` selects the
        part of the response that has the error code; this part is returned. Raises RuntimeError for any other error or if the retries are
        used up, OSError if the broker does not answer."""
        error = ErrorCode.NONE
        for _ in range(_TRIES):
            answer = pick(self.call(at, request, version))
            error = ErrorCode(getattr(answer, "error_code", 0) or getattr(answer, "partition_error_code", 0))
            if not error:
                return answer
            if not error.retriable:
                break
            time.sleep(_PAUSE_S)
        name = type(request).__name__.removesuffix("Request")
        rights = "; its user needs the rights to create, read, write and delete its topics and groups (docs/verify.md)"
        refused = error.name.endswith("AUTHORIZATION_FAILED")
        raise RuntimeError(f"{name} of ottla verify itself was rejected: {error.name}{rights if refused else ''}")

    def call(self, at: Callable[[], Client], request: Message, version: int) -> Any:
        """Send a request once, on the connection that `at` returns, and return the response. Raises OSError if the broker does not answer;
        all connections are then closed."""
        try:
            return at().call(request, version)
        except OSError:
            self.close()
            raise

    def leader(self, topic: str, partition: int) -> Callable[[], Client]:
        """Return a function that finds the partition's current leader and returns a connection to it. While there is no leader, the
        function returns a connection to any broker."""

        def find() -> Client:
            response = self.anybody().call(MetadataRequest([MetadataRequestTopic(name=topic)], False), _METADATA)
            nodes = {each.node_id: each for each in response.brokers}
            leaders = {each.partition_index: each.leader_id for each in response.topics[0].partitions}
            node = nodes.get(leaders.get(partition, -1))
            return self.anybody() if node is None else self._client(node.host, node.port)

        return find

    def coordinator(self, kind: int, key: str) -> Callable[[], Client]:
        """Return a function that finds the coordinator of a group (`kind` BY_GROUP) or transactional id (BY_TRANSACTION) and returns a
        connection to it. The broker creates the coordinator's topic if needed."""

        def find() -> Client:
            found = self.ask(self.anybody, FindCoordinatorRequest(key=key, key_type=kind), _FIND_COORDINATOR)
            return self._client(found.host, found.port)

        return find

    def close(self) -> None:
        """Close all connections; the next request makes new ones."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def anybody(self) -> Client:
        """Return a connection to the first broker that can be reached. Raises OSError if there is none."""
        failed: OSError = ConnectionError("no broker is up")
        for address in self._bootstrap():
            host, _, port = address.rpartition(":")
            try:
                return self._client(host.strip("[]"), int(port))
            except OSError as error:
                failed = error
        raise failed

    def _client(self, host: str, port: int) -> Client:
        address = f"{host}:{port}"
        if not self._elsewhere and address not in self._bootstrap():
            raise ConnectionError(f"the broker at {address} is not up")
        if address not in self._clients:
            self._clients[address] = self._connect(host, port)
        return self._clients[address]
