"""What handlers ask before they do anything. Without an authorizer everything is allowed, and nothing is looked at.

Rules that hold inside, as in Kafka:
- whoever may not, learns nothing: it is refused before it is looked whether a thing exists;
- what was asked for by its id is looked up first, for only a name can be judged;
- `quietly` is for what is left out of an answer without a word, and for a permission that another one can stand for.

Source: KAFKA AuthHelper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.broker.api.authorizer import Asking, Authorizer
from ottla.broker.cluster.image import ResourceType
from ottla.broker.core.acl import CLUSTER_NAME, SUPPORTED, Operation, Resource, bits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:

    class _Services(Protocol):
        @property
        def authorizer(self) -> Authorizer | None: ...

    class Guarded(Asking, Protocol):
        """The context of a handler, a broker's or a controller's."""

        @property
        def services(self) -> _Services: ...


NOBODY: Final[frozenset[str]] = frozenset()
"""The names that are denied, where none is."""
NOT_ASKED: Final = -0x80000000
"""Authorized operations that were not asked for (KIP-430)."""
TOPIC_OPERATIONS: Final = bits(SUPPORTED[Resource.TOPIC])
GROUP_OPERATIONS: Final = bits(SUPPORTED[Resource.GROUP])
CLUSTER_OPERATIONS: Final = bits(SUPPORTED[Resource.CLUSTER])
_SETTINGS_OF: Final[Mapping[int, Resource]] = {
    ResourceType.TOPIC: Resource.TOPIC,
    ResourceType.BROKER: Resource.CLUSTER,
    ResourceType.BROKER_LOGGER: Resource.CLUSTER,
    ResourceType.CLIENT_METRICS: Resource.CLUSTER,
    ResourceType.GROUP: Resource.GROUP,
}
_DENIALS: Final = {
    Resource.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    Resource.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    Resource.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    Resource.TRANSACTIONAL_ID: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactional Id authorization failed."),
}
_ALL: Final = {Resource.TOPIC: TOPIC_OPERATIONS, Resource.GROUP: GROUP_OPERATIONS, Resource.CLUSTER: CLUSTER_OPERATIONS}


def allowed(ctx: Guarded, operation: Operation, resource: Resource, name: str, *, quietly: bool = False) -> bool:
    """Whether the client may do this with that one thing."""
    authorizer = ctx.services.authorizer
    return authorizer is None or authorizer.allowed(ctx, operation, resource, name, quietly=quietly)


def allowed_of_cluster(ctx: Guarded, operation: Operation, *, quietly: bool = False) -> bool:
    """Whether the client may do this with the cluster."""
    authorizer = ctx.services.authorizer
    return authorizer is None or authorizer.allowed(ctx, operation, Resource.CLUSTER, CLUSTER_NAME, quietly=quietly)


def denied(ctx: Guarded, operation: Operation, resource: Resource, names: Iterable[str], *, quietly: bool = False) -> Set[str]:
    """Those of `names` with which the client may not do it; each is asked for once."""
    authorizer = ctx.services.authorizer
    if authorizer is None:
        return NOBODY
    return {
        name
        for name, count in Counter(names).items()
        if not authorizer.allowed(ctx, operation, resource, name, quietly=quietly, count=count)
    }


def check_cluster(ctx: Guarded, operation: Operation) -> None:
    """Raises Rejected(CLUSTER_AUTHORIZATION_FAILED) where the client may not do this with the cluster."""
    if not allowed_of_cluster(ctx, operation):
        raise Rejected(*_DENIALS[Resource.CLUSTER])


def for_cluster(operation: Operation, handle: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The handler, for those who may do this with the cluster; others are refused whole."""

    def guarded(ctx: Guarded, request: Any) -> Any:
        return handle(ctx, request) if allowed_of_cluster(ctx, operation) else refused(request)

    return guarded


def operations(ctx: Guarded, resource: Resource, name: str) -> int:
    """What the client may do with it, as bits (KIP-430)."""
    authorizer = ctx.services.authorizer
    return _ALL[resource] if authorizer is None else authorizer.operations(ctx, resource, name)


def operations_of_cluster(ctx: Guarded) -> int:
    """As above; none where the client may not describe it."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        return 0
    return operations(ctx, Resource.CLUSTER, CLUSTER_NAME)


def denial_of_configs(ctx: Guarded, operation: Operation, kind: int, name: str) -> Rejected | None:
    """Return why the client may not describe, or alter, the settings of one resource. Settings of nodes, and of a type that does not
    exist, are the cluster's."""
    authorizer = ctx.services.authorizer
    if authorizer is None:
        return None
    resource = _SETTINGS_OF.get(kind, Resource.CLUSTER)
    if authorizer.allowed(ctx, operation, resource, CLUSTER_NAME if resource is Resource.CLUSTER else name):
        return None
    return Rejected(*_DENIALS[resource])


def refused(request: Any, error: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED) -> Any:
    """The response that refuses a whole request, everything in it by name (KAFKA Request.getErrorResponse)."""
    from ottla.broker.faults.answers import refusal  # noqa: PLC0415 # only where somebody is denied something

    return refusal(request.API_KEY, request, error)
