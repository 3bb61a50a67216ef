"""The API keys that a controller serves; its ApiVersions response is made from this table. Imported only in a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.broker.api import controller_brokers as brokers
from ottla.broker.api import (
    controller_features,
    k17_sasl_handshake,
    k19_create_topics,
    k20_delete_topics,
    k29_describe_acls,
    k30_create_acls,
    k31_delete_acls,
    k32_describe_configs,
    k33_alter_configs,
    k36_sasl_authenticate,
    k37_create_partitions,
    k38_create_delegation_token,
    k39_renew_delegation_token,
    k40_expire_delegation_token,
    k44_incremental_alter_configs,
    k49_alter_client_quotas,
)
from ottla.broker.api import controller_partitions as partitions
from ottla.broker.api import controller_raft as raft
from ottla.broker.api import controller_users as users
from ottla.broker.api.access import allowed_of_cluster, refused
from ottla.broker.api.controller_context import ControllerContext, ControllerServices
from ottla.broker.api.controller_envelope import open_envelope
from ottla.broker.api.controller_self import api_versions, describe_cluster
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.large_requests import Compute
from ottla.broker.api.reply import Buffer
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation
from ottla.broker.faults.engine import Faults
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import response_class
from ottla.protocol.error_codes import ErrorCode

_ACTION, _ALTER, _DESCRIBE = Operation.CLUSTER_ACTION, Operation.ALTER, Operation.DESCRIBE
NEEDED: Final[Mapping[ApiKey, Operation]] = {
    ApiKey.FETCH: _ACTION,
    ApiKey.ELECT_LEADERS: _ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
    ApiKey.VOTE: _ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: _ACTION,
    ApiKey.END_QUORUM_EPOCH: _ACTION,
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
    ApiKey.ALTER_PARTITION: _ACTION,
    ApiKey.UPDATE_FEATURES: _ALTER,
    ApiKey.FETCH_SNAPSHOT: _ACTION,
    ApiKey.DESCRIBE_CLUSTER: _ALTER,
    ApiKey.BROKER_REGISTRATION: _ACTION,
    ApiKey.BROKER_HEARTBEAT: _ACTION,
    ApiKey.UNREGISTER_BROKER: _ALTER,
    ApiKey.ALLOCATE_PRODUCER_IDS: _ACTION,
    ApiKey.CONTROLLER_REGISTRATION: _ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _ACTION,
    ApiKey.ADD_RAFT_VOTER: _ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER,
    ApiKey.UPDATE_RAFT_VOTER: _ACTION,
}
"""The operation on the cluster that each request requires (KAFKA ControllerApis). Handlers of other requests check authorization
themselves.
"""


class ControllerRoute(NamedTuple):
    """The handler of one API key. Versions are inclusive."""

    min_version: int
    max_version: int
    handle: Callable[[Any, Any], Any]


_ENVELOPE: Final = ApiKey.ENVELOPE.to_bytes(2, "big")
CONTROLLER_ROUTES: Final[dict[int, ControllerRoute]] = {}
_ROUTES: Final[Mapping[ApiKey, tuple[int, int, Callable[[Any, Any], Any]]]] = {
    ApiKey.FETCH: (4, 18, raft.fetch),
    ApiKey.SASL_HANDSHAKE: (0, 1, k17_sasl_handshake.handle),
    ApiKey.API_VERSIONS: (0, 4, partial(api_versions, routes=CONTROLLER_ROUTES)),
    ApiKey.CREATE_TOPICS: (2, 7, k19_create_topics.handle),
    ApiKey.DELETE_TOPICS: (1, 6, k20_delete_topics.handle),
    ApiKey.DESCRIBE_ACLS: (1, 3, k29_describe_acls.handle),
    ApiKey.CREATE_ACLS: (1, 3, k30_create_acls.handle),
    ApiKey.DELETE_ACLS: (1, 3, k31_delete_acls.handle),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, k32_describe_configs.handle),
    ApiKey.ALTER_CONFIGS: (0, 2, k33_alter_configs.handle),
    ApiKey.SASL_AUTHENTICATE: (0, 2, k36_sasl_authenticate.handle),
    ApiKey.CREATE_PARTITIONS: (0, 3, k37_create_partitions.handle),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3, k38_create_delegation_token.handle),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2, k39_renew_delegation_token.handle),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2, k40_expire_delegation_token.handle),
    ApiKey.ELECT_LEADERS: (0, 2, partitions.elect),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, k44_incremental_alter_configs.handle),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, partitions.reassign),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, partitions.reassignments),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, k49_alter_client_quotas.handle),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, users.alter_users),
    ApiKey.VOTE: (0, 2, raft.vote),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1, raft.begin_epoch),
    ApiKey.END_QUORUM_EPOCH: (0, 1, raft.end_epoch),
    ApiKey.DESCRIBE_QUORUM: (0, 2, raft.describe_quorum),
    ApiKey.ALTER_PARTITION: (2, 3, partitions.alter_in_sync),
    ApiKey.UPDATE_FEATURES: (0, 2, controller_features.update),
    ApiKey.ENVELOPE: (0, 0, partial(open_envelope, routes=CONTROLLER_ROUTES)),
    ApiKey.FETCH_SNAPSHOT: (0, 1, raft.fetch_snapshot),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, describe_cluster),
    ApiKey.BROKER_REGISTRATION: (0, 4, brokers.register),
    ApiKey.BROKER_HEARTBEAT: (0, 2, brokers.beat),
    ApiKey.UNREGISTER_BROKER: (0, 0, brokers.unregister),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0, brokers.allocate_ids),
    ApiKey.CONTROLLER_REGISTRATION: (0, 0, brokers.register_other),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0, partitions.assign),
    ApiKey.ADD_RAFT_VOTER: (0, 1, raft.add_voter),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0, raft.remove_voter),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0, raft.update_voter),
}
"""The routes of a controller, with the versions of Kafka's schemas for the listener `controller`.

Some handlers are shared with brokers: `ControllerContext` provides everything that they use.
"""


def _guarded(key: ApiKey, handle: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a handler in the authorization check of `NEEDED`."""
    operation = NEEDED.get(key)
    if operation is None:
        return handle

    def guarded(ctx: ControllerContext, request: Any) -> Any:
        if allowed_of_cluster(ctx, operation):
            return handle(ctx, request)
        if operation is _ACTION or key is ApiKey.DESCRIBE_QUORUM:
            make: Callable[..., Any] = response_class(key)
            return make(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return refused(request)

    return guarded


for _key, (_first, _last, _handle) in _ROUTES.items():
    CONTROLLER_ROUTES[int(_key)] = ControllerRoute(_first, _last, _guarded(_key, _handle))


class ControllerDispatcher(Dispatcher):
    """The dispatcher of a controller's requests."""

    def __init__(self, services: ControllerServices, compute: Compute[Any] | None = None) -> None:
        super().__init__(services, Faults(), CONTROLLER_ROUTES, ControllerContext, compute)

    def may_be_so_large(self, frame: Buffer) -> bool:
        """Return whether the frame is an Envelope, which may contain a client's request of the largest size."""
        return bytes(frame[:2]) == _ENVELOPE and len(frame) <= limits.STRUCTURED_REQUEST_BYTES + limits.ENVELOPE_BYTES

    def at_once(self, data: bytes, at: int) -> None:
        """Return None: a controller has no fast path, because it serves no Produce."""
