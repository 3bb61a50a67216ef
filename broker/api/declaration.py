"""The declaration of an API. Each file `kNN_name.py` declares its API once:

    API = Api(ElectLeadersRequest, forwarded=Forwarded.ALWAYS)

    @API.on_controller(requires=Operation.ALTER)
    async def handle(ctx: Context[ControllerServices], request: ElectLeadersRequest) -> ElectLeadersResponse: ...

Key and versions are those of the message. A handler serves the listeners that its decorators name, or both (`on_both`); its context names
the services that it needs (`ottla.broker.api.services`), and mypy checks that the listener's node has them.

Every other list of APIs follows from the declarations: the routes of both listeners, ApiVersions, the forwarded and the throttled APIs, how
large requests are split, and the table in docs/apis.md. `make apis` writes the declarations to `api_table`, because ApiVersions is answered
before all handlers are imported. A broker imitates a Kafka release: a declared API that is not in this release's table
(`broker/releases/tables`) is neither served nor listed in ApiVersions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast

from ottla.broker.api.access import allowed_of_cluster, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.routes import Answer, Handler
from ottla.broker.api.served_api import Forwarded, ListenerType, ServedApi, Split
from ottla.broker.api.services import NodeServices, Services
from ottla.broker.core.acl import Operation
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.registry import response_class
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.api.services import ControllerServices

    AnyServices: TypeAlias = Services | ControllerServices

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Answer)
ServicesT = TypeVar("ServicesT")
TypedHandler = Callable[[Context[ServicesT], RequestT], ResponseT]
_DENIED_WITH_TEXT: Final = frozenset({ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE})
"""The APIs whose response has an error message if the client is not authorized, but not if the whole request is rejected for another
reason. For an unauthorized client, Kafka calls `toGlobalErrorResponse`, which sets the message; else `getErrorResponse`, which does not."""


class Api(Generic[RequestT]):
    """One API and its handlers. `request` is the API's request class. The other parameters say, for example, whether a broker forwards the
    request to the controller (`forwarded`), and whether client quotas apply (`throttled`); they are fields of `ServedApi`."""

    def __init__(
        self,
        request: type[RequestT],
        *,
        forwarded: Forwarded = Forwarded.NEVER,
        throttled: bool = True,
        needs_telemetry: bool = False,
        advertised_min: int | None = None,
        splits: Sequence[Split] = (),
        array_limits: Mapping[str, int] | None = None,
    ) -> None:
        self.key: Final = ApiKey(request.API_KEY)
        self.handlers: Final[dict[ListenerType, Handler]] = {}
        self.requires: Final[dict[ListenerType, Operation]] = {}
        """By listener, the operation on the cluster (such as ALTER) that the client must be authorized for in every request. Without an
        entry, the handler authorizes the request.
        """
        self._request = request
        self._forwarded = forwarded
        self._throttled = throttled
        self._needs_telemetry = needs_telemetry
        self._splits = splits
        self._array_limits = array_limits or {}
        self._advertised_min = request.MIN_VERSION if advertised_min is None else advertised_min

    def on_broker(
        self, *, requires: Operation | None = None
    ) -> Callable[[TypedHandler[Services, RequestT, ResponseT]], TypedHandler[Services, RequestT, ResponseT]]:
        """Return a decorator that registers the handler for brokers' listeners. With `requires`, a request is rejected unless the client
        may perform this operation on the cluster.
        """
        return partial(self._serve, ListenerType.BROKER, requires)

    def on_controller(
        self, *, requires: Operation | None = None
    ) -> Callable[[TypedHandler[ControllerServices, RequestT, ResponseT]], TypedHandler[ControllerServices, RequestT, ResponseT]]:
        """Return a decorator that registers the handler for controllers' listeners. With `requires`, a request is rejected unless the
        client may perform this operation on the cluster.
        """
        return partial(self._serve, ListenerType.CONTROLLER, requires)

    def on_both(
        self, *, requires: Operation | None = None
    ) -> Callable[[TypedHandler[AnyServices, RequestT, ResponseT]], TypedHandler[AnyServices, RequestT, ResponseT]]:
        """Return a decorator that registers the handler for both kinds of listeners. With `requires`, a request is rejected unless the
        client may perform this operation on the cluster.
        """
        return partial(self._serve, ListenerType.BROKER | ListenerType.CONTROLLER, requires)

    @property
    def served(self) -> ServedApi:
        """This API's row in `api_table`, the table of all served APIs: its key, its versions, and how its requests are handled."""
        listeners = ListenerType.BROKER if self._forwarded is Forwarded.ALWAYS else ListenerType(0)
        for listener in self.handlers:
            listeners |= listener
        return ServedApi(
            self.key,
            self._request.MIN_VERSION,
            self._request.MAX_VERSION,
            self._advertised_min,
            listeners,
            self._forwarded,
            self._throttled,
            self._needs_telemetry,
            self._splits,
            self._array_limits,
        )

    def _serve(
        self, listeners: ListenerType, requires: Operation | None, handle: TypedHandler[ServicesT, RequestT, ResponseT]
    ) -> TypedHandler[ServicesT, RequestT, ResponseT]:
        # A dispatcher calls the handler with the services of its own listener, and with the request that was decoded for this key.
        handler = cast("Handler", handle)
        for listener in listeners:
            self.handlers[listener] = handler if requires is None else self._guarded(handler, requires)
            if requires is not None:
                self.requires[listener] = requires
        return handle

    def _guarded(self, handle: Handler, requires: Operation) -> Handler:
        def guarded(ctx: Context[NodeServices], request: Message) -> Answer:
            return handle(ctx, request) if allowed_of_cluster(ctx, requires) else self._denial(requires, ctx.version, request)

        return guarded

    def _denial(self, requires: Operation, version: int, request: Message) -> Message:
        """Return the response to a client that may not perform `requires` on the cluster.

        For DescribeQuorum, and for APIs that require CLUSTER_ACTION (only other nodes use them), the response has just the top-level error
        code if it has such a field, as in Kafka. Any other response repeats the request's elements, each with the error.
        """
        response = response_class(self.key)()
        is_brief = requires is Operation.CLUSTER_ACTION or self.key is ApiKey.DESCRIBE_QUORUM
        if is_brief and hasattr(response, "error_code"):
            response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return response
        response = rejecting_response(version, request, type(response))
        if self.key in _DENIED_WITH_TEXT:
            from ottla.broker.api.error_response import TEXTS, set_text  # noqa: PLC0415 # only for denied requests

            set_text(response, TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
        return response
