"""DescribeLogDirs (key 35), versions 1-5: the contents of the data directory, and the size of its volume.

Promises: the only data directory is always returned; requested partitions that are not in it are omitted. Sizes are those of the segments.
The directory is returned as cordoned if this broker's dynamic setting `cordoned.log.dirs` is not empty. In a cluster it then gets no new
partitions; a standalone node only reports the setting, because it has no other place for partitions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from itertools import groupby

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import PartitionServices
from ottla.broker.core.acl import Operation
from ottla.broker.core.stored_settings import CORDONED
from ottla.broker.runtime.replicas.partition import Partition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API = Api(DescribeLogDirsRequest, array_limits={"topics.partitions": 100_000})


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return the contents of this broker's only data directory, or CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster. The sizes
    of logs are in memory; only the size of the volume is read from the disk."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    path = ctx.services.log_dir.path.resolve()
    volume = shutil.disk_usage(path)
    wanted = sorted(_wanted(ctx, request), key=lambda partition: (partition.topic, partition.index))
    by_topic = groupby(wanted, key=lambda partition: partition.topic)
    topics = {name: DescribeLogDirsTopic(name, [_describe(partition) for partition in partitions]) for name, partitions in by_topic}
    if not ctx.services.settings.release_behaviour.describes_requested_log_dirs_only:
        topics = {partition.topic: DescribeLogDirsTopic(partition.topic) for partition in ctx.services.partitions} | topics
    cordoned = bool(ctx.services.broker_configs.of_this_broker().get(CORDONED))
    return DescribeLogDirsResponse(
        results=[DescribeLogDirsResult(0, str(path), list(topics.values()), volume.total, volume.free, cordoned)]
    )


def _wanted(ctx: Context[PartitionServices], request: DescribeLogDirsRequest) -> Iterable[Partition]:
    if request.topics is None:
        return ctx.services.partitions
    requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [partition for partition in ctx.services.partitions if (partition.topic, partition.index) in requested]


def _describe(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    return DescribeLogDirsPartition(partition.index, log.size_bytes, max(log.high_watermark - log.log_end_offset, 0))
