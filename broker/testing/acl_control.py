"""Lets a test add and remove the ACLs of a broker in the test's process, without a client."""

from __future__ import annotations

from functools import partial

from ottla.broker.controller.acls import create_acls, delete_acls
from ottla.broker.core.acl import CLUSTER_NAME, STANDARD_AUTHORIZER, Operation, Pattern, Permission, Resource
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.testing.broker_thread import BrokerThread
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter

_ANYTHING = DeleteAclsFilter(Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)

_NAMES = [each.name for each in Operation if each is not Operation.ANY]
_KINDS = {kind.name.lower(): kind for kind in Resource if kind not in {Resource.ANY, Resource.CLUSTER}}


class AclControl:
    """Adds and removes the ACLs of one standalone broker in a test's process, without a client. Each method raises RuntimeError if the
    broker has no authorizer (`settings={"authorizer.class.name": …}`), or is a broker of a cluster."""

    def __init__(self, owner: BrokerThread) -> None:
        self._owner = owner

    def allow(self, principal: str, *operations: str, host: str = "*", prefixed: bool = False, **resource: str) -> None:
        """Allow a principal some operations on a resource: `allow("User:ann", "READ", "WRITE", topic="orders")`.

        The resource is given as `topic=`, `group=` or `transactional_id=`; without any of these, it is the cluster. The name "*" means all;
        with `prefixed`, the name is a prefix. `host` is the client's IP address, "*" for any. Raises Rejected if the broker rejects an ACL,
        KeyError for an unknown operation, TypeError if no operation is given or the resource is invalid.
        """
        self._make(Permission.ALLOW, principal, operations, host=host, prefixed=prefixed, resource=resource)

    def deny(self, principal: str, *operations: str, host: str = "*", prefixed: bool = False, **resource: str) -> None:
        """Deny a principal some operations on a resource, with the arguments and errors of `allow`. If an operation is both allowed and
        denied, it is denied."""
        self._make(Permission.DENY, principal, operations, host=host, prefixed=prefixed, resource=resource)

    def reset(self) -> None:
        """Remove all ACLs of the broker."""
        self._owner.call_async(self._controller().run(lambda state: delete_acls(state.image, [_ANYTHING])))

    def _make(
        self, permission: Permission, principal: str, operations: tuple[str, ...], *, host: str, prefixed: bool, resource: dict[str, str]
    ) -> None:
        if not operations:
            raise TypeError(f"name one or more operations of {', '.join(_NAMES)}")
        for each in operations:
            if each not in _NAMES:
                raise KeyError(f"there is no operation {each!r}; use one of {', '.join(_NAMES)}")
        kind, name = _resource(resource)
        pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
        acls = [AclCreation(kind, name, pattern, principal, host, Operation[each], permission) for each in operations]
        decide = self._controller().run(partial(create_acls, acls=acls))
        for error in self._owner.call_async(decide):
            if error is not None:
                raise error

    def _controller(self) -> ActiveController:
        services = self._owner.node.services
        if services.authorizer is None:
            raise RuntimeError(f"the broker has no authorizer: start it with authorizer.class.name={STANDARD_AUTHORIZER}")
        standalone = self._owner.node.standalone
        if standalone is None:
            raise RuntimeError("ACLs of a cluster are created by its controller: use a client")
        return standalone.controller.active


def _resource(given: dict[str, str]) -> tuple[Resource, str]:
    if not given:
        return Resource.CLUSTER, CLUSTER_NAME
    (kind, *more), name = given, next(iter(given.values()))
    if more or kind not in _KINDS:
        raise TypeError(f"an ACL is for one resource, of {', '.join(_KINDS)} or the cluster, not for {', '.join(given)}")
    return _KINDS[kind], name
