"""AlterPartition (key 56), versions 2-3: changes the ISR of partitions (KIP-497)."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse

API = Api(AlterPartitionRequest, throttled=False, splits=(Split("topics.partitions", "topics.partitions"),))


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change the ISR of partitions as their leaders propose. Return one result per partition when the changes are durable."""
    try:
        return await ctx.services.active.run(partial(alter_partition, request=request))
    except Rejected as error:
        return AlterPartitionResponse(error_code=error.code)
