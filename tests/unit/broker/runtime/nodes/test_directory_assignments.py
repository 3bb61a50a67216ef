from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_records import MetadataRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes import directory_assignments
from ottla.broker.runtime.nodes.controller_channel import ControllerUnreachable
from ottla.broker.runtime.nodes.directory_assignments import RETRY_MS, DirectoryAssignments
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.schema import Message
from tests.support.metadata_images import level, made_of
from tests.support.simulation import settle

NODE, EPOCH, OTHERS = 2, 12, b"\x01" * 16
OLD, OWN = b"\x10" * 16, b"\x20" * 16
ID = b"\x07" * 16


class Harness:
    """Broker 2, whose data directory is `OWN`, and a scripted controller."""

    def __init__(self) -> None:
        self.clock, self.timers, self.catalog = VirtualClock(), Timers(), Catalog()
        self.nursery = Nursery(self.timers, self.clock, lambda _: None)
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.assignments = DirectoryAssignments(self, self.catalog, NODE, OWN, lambda: EPOCH, nursery=self.nursery)

    async def call(self, request: Message) -> Any:
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.requests.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def publish(self, *records: MetadataRecord) -> None:
        before = self.catalog.image
        image = made_of(*records, image=before)
        changes = difference(before, image)
        self.catalog.publish(image, changes)
        self.assignments.maybe_report(changes)
        await settle()

    async def answer(self, *results: PartitionResult, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answers[-1].set_result(AssignReplicasToDirsResponse(0, error, [DirectoryResult(OWN, [TopicResult(ID, list(results))])]))
        await settle()

    async def wait(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())
        await settle()

    @property
    def requested_partitions(self) -> list[list[int]]:
        """The partition indexes in each request."""
        return [
            [at.partition_index for directory in request.directories for topic in directory.topics for at in topic.partitions]
            for request in self.requests
        ]


@pytest.fixture
async def harness() -> Harness:
    return Harness()


def partition(index: int, own: bytes, replicas: tuple[int, ...] = (1, NODE)) -> PartitionRecord:
    directories = [own if replica == NODE else OTHERS for replica in replicas]
    return PartitionRecord(index, ID, list(replicas), list(replicas), leader=1, leader_epoch=0, partition_epoch=0, directories=directories)


START = (level(30), TopicRecord("t", ID))


async def test_only_replicas_whose_directory_differs_in_metadata_are_reported(harness: Harness) -> None:
    await harness.publish(*START, partition(0, OLD), partition(1, OWN), partition(2, OLD, (1, 3)))
    request = harness.requests[0]
    assert (request.broker_id, request.broker_epoch, request.directories[0].id, request.directories[0].topics[0].topic_id) == (
        NODE,
        EPOCH,
        OWN,
        ID,
    )
    assert harness.requested_partitions == [[0]]
    await harness.answer(PartitionResult(0))
    await harness.wait(RETRY_MS)
    assert harness.requested_partitions == [[0]]


async def test_a_refused_assignment_is_sent_again_after_a_pause(harness: Harness) -> None:
    await harness.publish(*START, partition(0, OLD), partition(1, OLD))
    harness.answers[0].set_exception(ControllerUnreachable("gone"))
    await settle()
    assert harness.requested_partitions == [[0, 1]]
    await harness.wait(RETRY_MS)
    await harness.answer(error=ErrorCode.STALE_BROKER_EPOCH)
    await harness.wait(RETRY_MS)
    await harness.answer(PartitionResult(0), PartitionResult(1, ErrorCode.UNKNOWN_SERVER_ERROR))
    await harness.wait(RETRY_MS)
    assert harness.requested_partitions == [[0, 1], [0, 1], [0, 1], [1]]


async def test_an_assignment_that_is_obsolete_is_not_sent_again(harness: Harness) -> None:
    await harness.publish(*START, partition(0, OLD), partition(1, OLD))
    await harness.publish(PartitionChangeRecord(0, ID, directories=[OTHERS, OWN]))
    await harness.answer(error=ErrorCode.STALE_BROKER_EPOCH)
    await harness.wait(RETRY_MS)
    await harness.publish(RemoveTopicRecord(ID))
    await harness.answer(error=ErrorCode.STALE_BROKER_EPOCH)
    await harness.wait(RETRY_MS)
    assert harness.requested_partitions == [[0, 1], [1]]


async def test_a_request_carries_a_limited_number_of_assignments(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "PARTITIONS_MAX", 2)
    await harness.publish(*START, *(partition(index, OLD) for index in range(3)))
    await harness.answer(PartitionResult(0), PartitionResult(1))
    assert harness.requested_partitions == [[0, 1], [2]]


async def test_no_assignments_are_sent_below_the_metadata_version_with_directories(harness: Harness) -> None:
    await harness.publish(level(16), TopicRecord("t", ID), partition(0, OLD))
    assert harness.requests == []


async def test_no_assignments_are_sent_after_a_stop(harness: Harness) -> None:
    await harness.publish(*START, partition(0, OLD))
    await harness.nursery.stop()
    await harness.wait(RETRY_MS)
    assert harness.requested_partitions == [[0]]
