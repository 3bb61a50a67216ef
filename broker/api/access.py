"""Authorization checks for handlers. Without an authorizer everything is allowed and nothing is looked up.

Invariants, as in Kafka:
* A client that is not authorized learns nothing: authorization is checked before existence.
* A resource that is named by id is looked up first, because ACLs refer to names.
* With `quietly`, a denial is not written to the audit log. Callers use it for resources that the response silently omits, and for checks
  after which another permission may still suffice.

Source: KAFKA AuthHelper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.broker.api.authorizer import AuthorizableRequest, Authorizer
from ottla.broker.cluster.image import ResourceType
from ottla.broker.core.acl import CLUSTER_NAME, SUPPORTED, Operation, Resource, bits
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import Message

if TYPE_CHECKING:

    class _Services(Protocol):
        @property
        def authorizer(self) -> Authorizer | None: ...

    class Guarded(AuthorizableRequest, Protocol):
        """The parts of a handler's context, on a broker or a controller, that authorization checks use."""

        @property
        def services(self) -> _Services: ...


ResponseT = TypeVar("ResponseT", bound=Message)
NOBODY: Final[frozenset[str]] = frozenset()
"""The result of `denied` if every name is authorized: the empty set of names."""
NOT_REQUESTED: Final = -0x80000000
"""The value of a response's authorized operations if the request does not ask for them (KIP-430)."""
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
    """Return whether the client may perform the operation on the named resource. A denial is written to the audit log unless `quietly`."""
    authorizer = ctx.services.authorizer
    return authorizer is None or authorizer.allowed(ctx, operation, resource, name, quietly=quietly)


def allowed_of_cluster(ctx: Guarded, operation: Operation, *, quietly: bool = False) -> bool:
    """Return whether the client may perform the operation on the cluster. A denial is written to the audit log unless `quietly`."""
    authorizer = ctx.services.authorizer
    return authorizer is None or authorizer.allowed(ctx, operation, Resource.CLUSTER, CLUSTER_NAME, quietly=quietly)


def denied(ctx: Guarded, operation: Operation, resource: Resource, names: Iterable[str], *, quietly: bool = False) -> Set[str]:
    """Return the names among `names` (resources of type `resource`) on which the client may not perform the operation. A name that occurs
    several times is checked once.
    """
    authorizer = ctx.services.authorizer
    if authorizer is None or authorizer.is_super_user(ctx.peer):
        return NOBODY
    counts: dict[str, int] = {}  # a Counter takes longer than the check of one name
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if not authorizer.allowed(ctx, operation, resource, name, quietly=quietly, count=count)}


def check_cluster(ctx: Guarded, operation: Operation) -> None:
    """Raise Rejected(CLUSTER_AUTHORIZATION_FAILED) if the client may not perform the operation on the cluster."""
    if not allowed_of_cluster(ctx, operation):
        raise Rejected(*_DENIALS[Resource.CLUSTER])


def operations(ctx: Guarded, resource: Resource, name: str) -> int:
    """Return the operations that the client may perform on a resource, as the bit field of a response: bit n stands for the operation with
    number n (KIP-430)."""
    authorizer = ctx.services.authorizer
    if authorizer is None or authorizer.is_super_user(ctx.peer):
        return _ALL[resource]
    return authorizer.operations(ctx, resource, name)


def operations_of_cluster(ctx: Guarded) -> int:
    """Return the operations that the client may perform on the cluster, as the bit field of a response: bit n stands for the operation with
    number n (KIP-430). Return 0 if the client may not describe the cluster.
    """
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        return 0
    return operations(ctx, Resource.CLUSTER, CLUSTER_NAME)


def denial_of_configs(ctx: Guarded, operation: Operation, kind: int, name: str) -> Rejected | None:
    """Return the error to respond with if the client may not perform `operation` (DESCRIBE_CONFIGS or ALTER_CONFIGS, for example) on the
    settings of the resource `name` of type `kind`; otherwise None. For a topic or a group, its own ACLs decide. For any other type, ACLs of
    the cluster decide.
    """
    authorizer = ctx.services.authorizer
    if authorizer is None:
        return None
    resource = _SETTINGS_OF.get(kind, Resource.CLUSTER)
    if authorizer.allowed(ctx, operation, resource, CLUSTER_NAME if resource is Resource.CLUSTER else name):
        return None
    return Rejected(*_DENIALS[resource])


def rejecting_response(
    version: int, request: Message, response: type[ResponseT], error: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
) -> ResponseT:
    """Return a response of class `response` that rejects the whole `request` with `error` (KAFKA AbstractRequest.getErrorResponse).
    `version` is the version of the request and of its response.
    """
    from ottla.broker.api.error_response import error_response  # noqa: PLC0415 # only for denied requests

    rejection: ResponseT = error_response(response.API_KEY, version, request, error)
    return rejection
