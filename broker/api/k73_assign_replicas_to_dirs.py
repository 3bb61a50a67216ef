"""AssignReplicasToDirs (key 73), version 0: records the directories of replicas (KIP-858)."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.assign_directories import assign_directories
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

API = Api(AssignReplicasToDirsRequest, throttled=False, splits=(Split("directories.topics.partitions", "directories.topics.partitions"),))


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    """Record in which of the requesting broker's directories each replica is. Return one result per replica when this is durable."""
    try:
        return await ctx.services.active.run(partial(assign_directories, request=request))
    except Rejected as error:
        return AssignReplicasToDirsResponse(error_code=error.code)
