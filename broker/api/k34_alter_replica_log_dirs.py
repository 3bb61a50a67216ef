"""AlterReplicaLogDirs (key 34), versions 1-2: moves replicas to another directory of this broker (KIP-113).

Promise: a broker has one data directory. A replica that is already in the requested directory succeeds; any other directory is
LOG_DIR_NOT_FOUND.

Source: KAFKA ReplicaManager.alterReplicaLogDirs, for the order of the checks.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

API = Api(AlterReplicaLogDirsRequest, splits=(Split("dirs.topics.partitions", "results.partitions"),))

_NAME_BYTES_MAX: Final = 255
_SUFFIX_BYTES: Final = len("-.-future") + 32
"""A future replica's directory is called `<topic>-<partition>.<unique id>-future`. This is the length of that name without topic and
partition; the whole name may have at most _NAME_BYTES_MAX characters.
"""


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Check the requested directory of each partition and return one result for each. If a partition is named with two directories, the
    last one counts."""
    wanted = {(topic.name, index): directory.path for directory in request.dirs for topic in directory.topics for index in topic.partitions}
    denied = not allowed_of_cluster(ctx, Operation.ALTER)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        found = results.setdefault(name, AlterReplicaLogDirTopicResult(name))
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if denied else _error(ctx, name, index, path)
        found.partitions.append(AlterReplicaLogDirPartitionResult(index, error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _error(ctx: Context[PartitionServices], name: str, index: int, path: str) -> ErrorCode:
    if len(name) + len(str(index)) + _SUFFIX_BYTES > _NAME_BYTES_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != str(ctx.services.log_dir.path.resolve()):  # the text counts: Kafka does not find the directory by another path, either
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        ctx.services.partitions.get(name, index)
    except Rejected as error:
        return error.code
    return ErrorCode.NONE
