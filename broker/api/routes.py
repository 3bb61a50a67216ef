"""The routes of a listener: for each API that the listener serves, the versions and the handler. They are made from `api_table`, so every
advertised API has a handler.

A handler's module is imported with its first request. A second after the start, the remaining modules are imported in the background, one
in each turn of the event loop, so that rarely used APIs do not delay the start. A broker that a test runs in its own process imports all
handlers at the start (`load_all`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Final, TypeAlias

from ottla.broker.api.api_table import APIS
from ottla.broker.api.context import Context
from ottla.broker.api.served_api import Forwarded, ListenerType, ServedApi
from ottla.broker.api.services import NodeServices
from ottla.broker.releases.release_behaviour import ReleaseBehaviour, default_behaviour
from ottla.protocol.schema import Message

Answer: TypeAlias = Message | Awaitable[Message | None] | None
"""A handler's result: the response, an awaitable of it, or None if the request gets no response (Produce with acks=0)."""
Handler: TypeAlias = Callable[[Context[NodeServices], Message], Answer]
FORWARDABLE: Final = frozenset(api.key for api in APIS if api.forwarded is not Forwarded.NEVER)
"""The APIs that a controller accepts in an Envelope (KAFKA ApiKeys.forwardable)."""


@dataclass(frozen=True)
class Route:
    """The route of one API at one listener: the versions that are served (both ends inclusive), and `load`, which imports the handler."""

    min_version: int
    max_version: int
    advertised_min: int
    load: Callable[[], Handler]

    @cached_property
    def handle(self) -> Handler:
        """The handler; its module is imported on first use."""
        return self.load()


Routes = Mapping[int, Route]
"""The routes of one listener, by API key, in the order of the keys. An API without a route is not served."""


@cache
def broker_routes(*, telemetry: bool = False, like: ReleaseBehaviour | None = None) -> Routes:
    """Return the routes of a broker's listener, with the versions of the Kafka release that the broker imitates (`like`; by default
    `DEFAULT_RELEASE`). `telemetry` adds the APIs of client metrics.
    """
    release = default_behaviour() if like is None else like
    found = [api for api in APIS if ListenerType.BROKER in api.listeners and (telemetry or not api.needs_telemetry)]
    served = [narrowed for api in found if (narrowed := _narrowed(api, release)) is not None]
    return {int(api.key): _forwarded(api) if api.forwarded is Forwarded.ALWAYS else _handled(api, ListenerType.BROKER) for api in served}


def _narrowed(api: ServedApi, like: ReleaseBehaviour) -> ServedApi | None:
    """Return the API with only the versions that the Kafka release `like` serves, or None if it serves none of them."""
    served = like.versions(api.key.camel_case, api.min_version, api.max_version)
    advertised = like.versions(api.key.camel_case, api.advertised_min, api.max_version)
    if served is None or advertised is None:
        return None
    return api._replace(min_version=served[0], max_version=served[1], advertised_min=advertised[0])


@cache
def controller_routes() -> Routes:
    """Return the routes of a controller's listener. An API that brokers serve, too, has only the versions of the default Kafka release."""
    shared = {api.key for api in APIS if ListenerType.BROKER in api.listeners}
    served = (_narrowed(api, default_behaviour()) if api.key in shared else api for api in APIS)
    return _on_controllers(filter(None, served))


def load(routes: Routes) -> None:
    """Import the modules of the routes' handlers now, instead of with each API's first request."""
    for route in routes.values():
        _ = route.handle


@cache
def standalone_routes() -> Routes:
    """Return the routes of a standalone node's controller, which serves only the requests that the broker in the same process forwards."""
    return {key: route for key, route in _on_controllers(APIS).items() if key in FORWARDABLE}


def _on_controllers(apis: Iterable[ServedApi]) -> Routes:
    return {int(api.key): _handled(api, ListenerType.CONTROLLER) for api in apis if ListenerType.CONTROLLER in api.listeners}


def load_all() -> None:
    """Import all handlers of a standalone node and the Produce fast path now, so that no later request waits for an import."""
    load(broker_routes())
    load(standalone_routes())
    import_module("ottla.broker.api.produce_fast_path")


def _handled(api: ServedApi, listener: ListenerType) -> Route:
    def load_handler() -> Handler:
        handler: Handler = import_module(f"ottla.broker.api.{api.module}").API.handlers[listener]
        return handler

    return Route(api.min_version, api.max_version, api.advertised_min, load_handler)


def _forwarded(api: ServedApi) -> Route:
    def load_handler() -> Handler:
        handler: Handler = import_module("ottla.broker.api.forwarding").handle
        return handler

    return Route(api.min_version, api.max_version, api.advertised_min, load_handler)
