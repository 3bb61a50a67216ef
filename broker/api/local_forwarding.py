"""Forwards clients' requests to the controller of the same process, on a standalone node: by a call instead of an Envelope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import isawaitable
from typing import Any

from ottla.broker.api.context import Context, Peer
from ottla.broker.api.routes import standalone_routes
from ottla.broker.api.services import ControllerServices, Services
from ottla.broker.runtime.metadata.standalone import StandaloneMetadata
from ottla.protocol.schema import Message


class LocalForwarding:
    """Forwards requests on a standalone node, by calls to the controller in the same process. (A cluster broker sends Envelopes instead:
    `ottla.broker.runtime.nodes.envelopes`.) `broker` returns the broker's services.
    """

    def __init__(self, metadata: StandaloneMetadata, broker: Callable[[], Services]) -> None:
        self._metadata = metadata
        self._broker = broker

    def versions(self, _: int) -> tuple[int, int] | None:
        """Return None, which means that the controller limits no versions: it runs in this process, so it serves the same Kafka release as
        the broker."""
        return None

    async def forward(self, request: Message, version: int, client_id: str | None, client: Peer) -> Any:
        """Return the controller's response to the request of `client`. Raises what the controller's handler raises."""
        key = request.API_KEY
        context = Context(version, client_id, replace(client, is_forwarded=True), self._services(), key)
        answer = standalone_routes()[key].handle(context, request)
        return await answer if isawaitable(answer) else answer

    def _services(self) -> ControllerServices:
        """Return the services of the controller in this process. Its authorizer and quotas are those of the broker, so a forwarded request
        is authorized and throttled like one that the broker handles.
        """
        broker, metadata = self._broker(), self._metadata
        return ControllerServices(
            settings=broker.settings,
            clock=broker.clock,
            timers=broker.timers,
            turns=broker.turns,
            topics=metadata.controller.state.catalog,
            features=metadata.features,
            broker_configs=metadata.broker_configs,
            random_bytes=broker.random_bytes,
            stop_at_once=broker.stop_at_once,
            authorizer=broker.authorizer,
            quotas=broker.quotas,
            controller=metadata.controller,
        )
