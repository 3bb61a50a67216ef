"""The controller's start on the log of an earlier process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.broker.cluster.metadata_records import BeginTransactionRecord, ConfigRecord, MetadataRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.controller.activation import DEFAULT_BOOTSTRAP
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.effects import Effects
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.quorum.quorum_controller import QuorumController
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_dir import LogDir

DATA = Path("/data")
AT = VoterEndpoint("CONTROLLER", "c1", 9093)
FIRST, SECOND = ConfigRecord(2, "t", "first", "1"), ConfigRecord(2, "t", "second", "2")


class Node:
    """A controller process; `files` outlive it."""

    def __init__(self, files: MemoryFiles) -> None:
        self.failures: list[BaseException] = []
        settings = BrokerSettings(node_id=1, controller_quorum_voters=("1@c1:9093",))
        self.log_dir = LogDir.open(DATA, settings, 0, files=files)
        self.flusher = Flusher(self.failures.append)
        fail: Callable[[BaseException], None] = self.failures.append
        self.controller = QuorumController(
            settings,
            self.log_dir,
            [AT],
            nursery=Nursery(Timers(), VirtualClock(), fail),
            flusher=self.flusher,
            random=Random(1),
            on_failure=fail,
        )
        self.controller.open(DEFAULT_BOOTSTRAP)
        self.controller.voter.sync()

    def write(self, *records: MetadataRecord) -> None:
        self.controller.active.begin(lambda _: Effects(records, None))
        self.controller.voter.sync()

    def end(self) -> None:
        self.flusher.close()
        self.log_dir.close(clean=False)


async def test_unfinished_transaction_at_the_end_of_the_log_is_discarded() -> None:
    files = MemoryFiles()
    before = Node(files)
    before.write(FIRST)
    before.write(BeginTransactionRecord("abandoned"), SECOND)
    before.end()
    node = Node(files)
    for image in (node.controller.state.image, node.controller.newest.image):
        assert image.configs == {(2, "t"): {"first": "1"}}
        assert image.features == {"metadata.version": 33}
    node.write(SECOND)
    assert node.controller.newest.image.configs == {(2, "t"): {"first": "1", "second": "2"}}
    node.end()


async def test_a_metadata_log_that_cannot_be_read_is_not_replaced() -> None:
    files = MemoryFiles()
    Node(files).end()

    def unreadable(operation: str, path: Path) -> None:
        if operation == "read" and path.parent.name == "__cluster_metadata-0":
            raise PermissionError(13, "Permission denied", str(path))

    files.on_call = unreadable
    with pytest.raises(LogDirRefused, match="the metadata log in /data cannot be read"):
        Node(files)
