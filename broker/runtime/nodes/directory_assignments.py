"""Corrects the metadata about the log directory of this broker's replicas (KIP-858): if the metadata names another directory for a replica,
the broker reports the actual one to the controller.

A log directory that was deleted and created again has a new id. The controller does not elect a replica that it believes to be in the old
directory, so the broker reports each replica with a wrong id. Before each request the broker compares with the newest metadata, so it does
not report a replica that was deleted or whose directory is right by now.

Source: Kafka's `AssignmentsManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import groupby, islice
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.core.state_lines import StateLines
from ottla.broker.runtime.nodes.controller_channel import ControllerUnreachable
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.broker.runtime.replicas.alter_partition_manager import Channel
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

logger = logging.getLogger(__name__)

PARTITIONS_MAX: Final = 2250
"""The most partitions in one AssignReplicasToDirs request, as in Kafka's brokers."""
RETRY_MS: Final = 1_000
DIRECTORIES_LEVEL: Final = 17
"""The first level of metadata.version (3.7-IV2) at which the metadata of a partition contains the directories of its replicas."""

TopicIdPartition = tuple[bytes, int]
"""A topic id and a partition index."""


class DirectoryAssignments:
    """Reports to the controller which replicas of broker `node` are in `directory`, the id of the broker's only log directory.
    `broker_epoch` returns the epoch of the broker's registration.
    """

    def __init__(
        self,
        channel: Channel,
        catalog: Catalog,
        node: int,
        directory: bytes,
        broker_epoch: Callable[[], int],
        *,
        nursery: Nursery,
    ) -> None:
        self._channel = channel
        self._catalog = catalog
        self._node = node
        self._directory = directory
        self._broker_epoch = broker_epoch
        self._nursery = nursery
        self._pending: set[TopicIdPartition] = set()
        self._lines = StateLines(logger, nursery.clock.mono_ms)
        self._worker = nursery.worker("directory assignments", self._work)

    def maybe_report(self, changes: ImageChanges) -> None:
        """Report to the controller each replica of this broker among the changed partitions, if the metadata names another log directory
        for it than this broker's.
        """
        changed = [(change.after.topic_id, index) for change in changes.topics.values() if change.after for index in change.partitions]
        self._pending.update(tp for tp in changed if self._directory_differs(tp))
        if self._pending:
            self._worker.wake()

    def _directory_differs(self, tp: TopicIdPartition) -> bool:
        """Return whether metadata places this broker's replica of the partition in another directory than the one in which it is."""
        image = self._catalog.image
        topic = image.topics.get(tp[0])
        partition = None if topic is None else topic.partitions.get(tp[1])
        if partition is None or self._node not in partition.replicas or image.metadata_level < DIRECTORIES_LEVEL:
            return False
        return partition.directories[partition.replicas.index(self._node)] != self._directory

    async def _work(self) -> None:
        while reported := list(islice(filter(self._directory_differs, sorted(self._pending)), PARTITIONS_MAX)):
            done = await self._report(reported)
            self._pending.difference_update(done)
            if len(done) < len(reported):
                await pause(self._nursery.timers, self._nursery.clock, RETRY_MS)
        self._pending.clear()

    async def _report(self, tps: list[TopicIdPartition]) -> set[TopicIdPartition]:
        """Send one AssignReplicasToDirs request and return the replicas that the controller accepted; none if the request failed."""
        topics = [
            TopicData(topic_id, [PartitionData(index) for _, index in those]) for topic_id, those in groupby(tps, key=lambda tp: tp[0])
        ]
        request = AssignReplicasToDirsRequest(self._node, self._broker_epoch(), [DirectoryData(self._directory, topics)])
        try:
            response: AssignReplicasToDirsResponse = await self._channel.call(request)
        except (ControllerUnreachable, UnsupportedByPeer) as error:
            line = "Cannot report the log directory of %d replica(s) to the controller; retrying: %s"
            self._lines.report("trouble", logging.WARNING, line, len(tps), error)
            return set()
        if response.error_code:
            name = ErrorCode.of(response.error_code).name
            self._lines.report("trouble", logging.WARNING, "The controller rejects AssignReplicasToDirs; retrying: %s", name)
            return set()
        self._lines.ended("trouble", "The controller accepts AssignReplicasToDirs again")
        return {
            (topic.topic_id, result.partition_index)
            for directory in response.directories
            for topic in directory.topics
            for result in topic.partitions
            if not result.error_code
        }
