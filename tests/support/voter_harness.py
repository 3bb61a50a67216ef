"""The only voter of a quorum with a directory in memory, on a loop where time passes only when the test advances it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from ottla.broker.cluster.raft_records import KRaftVersionFeature, Voter, VoterEndpoint, VotersRecord
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, write_snapshot
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.runtime.quorum.serving import QuorumServing
from ottla.broker.runtime.quorum.sole_voter import Identity, SoleVoter
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.raft_logs import DIRECTORY, open_metadata_log
from tests.support.simulation import settle

AT = VoterEndpoint("CONTROLLER", "c1", 9093)
ME = Identity("cluster", 1, b"d" * 16, [AT])
LEVEL = 30


class HeldThreads(Executor):
    """A stand-in for a thread pool. While `holds` is True, work is done when the test calls `run_all`; otherwise at once."""

    def __init__(self) -> None:
        self.holds = False
        self._held: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()

        def run() -> None:
            done.set_running_or_notify_cancel()
            try:
                done.set_result(work(*args, **named))
            except Exception as error:  # noqa: BLE001 # passed to the caller
                done.set_exception(error)

        self._held.append(run)
        if not self.holds:
            self.run_all()
        return done

    def run_all(self) -> None:
        held, self._held = self._held, []
        for work in held:
            work()


class VoterHarness:
    """A voter. `published` is everything that it published, over restarts; `failures` are its fatal errors."""

    def __init__(self, *, static: bool = True, policy: SnapshotPolicy | None = None, config: LogConfig | None = None) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.driver = TimerDriver(self.timers, self.clock)
        self.threads = HeldThreads()
        self.files = MemoryFiles()
        self.failures: list[BaseException] = []
        self.published: list[Published] = []
        self.on_closed: dict[object, Callable[[], object]] = {}
        self.static = static
        self.policy = policy
        self.me = ME
        self.config = config
        self.open_log()

    def open_log(self) -> None:
        self.log = open_metadata_log(self.files, self.config)

    def begin(self) -> SoleVoter:
        """Start a new voter process on the files that an earlier process left, and return the voter."""
        self.driver.start()
        self.voter = SoleVoter(
            self.log,
            self.me,
            is_named=self.static,
            clock=self.clock,
            flusher=Flusher(self.failures.append, lambda *_: self.threads),
            on_published=self.published.append,
            policy=self.policy,
        )
        self.voter.open()
        self.voter.sync()
        self.serving = QuorumServing(self.voter, self.clock, self.timers)
        return self.voter

    def end(self, *, power_loss: bool = False) -> None:
        """Kill the voter's process; with `power_loss`, also lose what was not synced."""
        self.driver.stop()
        self.log.release()
        if power_loss:
            self.files.power_loss()
        self.open_log()

    def format_dynamic(self, directory_id: bytes = ME.directory_id, node_id: int = 1) -> None:
        """Format the voter's directory as `ottla format --standalone` does."""
        voters = VotersRecord(0, [Voter(node_id, directory_id, [AT], KRaftVersionFeature(0, 1))])
        data = b"".join(write_snapshot(Snapshot(0, [], 1, voters), 0, LEVEL, 0))
        self.files.write(DIRECTORY / SnapshotId(0, 0).file_name, data, sync=True)

    def set(self, value: str) -> int:
        """Append a record that sets the topic setting `name` of topic "t" to `value`; return the record's offset."""
        return self.append(ConfigRecord(2, "t", "name", value))

    def first(self) -> int:
        return self.append(FeatureLevelRecord(METADATA_VERSION, LEVEL))

    def append(self, *records: MetadataRecord) -> int:
        """Append records and start to commit them; return the first one's offset."""
        offset = self.voter.append(records, LEVEL)
        self.voter.commit()
        return offset

    @property
    def value(self) -> str | None:
        """Return the published value of the topic setting that `set` changes; None if there is none."""
        return self.published[-1].image.configs.get((2, "t"), {}).get("name") if self.published else None

    async def pass_ms(self, ms: int) -> None:
        await settle()
        self.clock.advance(ms)
        await settle()

    async def answer(self, request: FetchRequest) -> Any:
        """Return the voter's response to a Fetch request; None while the response is delayed."""
        answer = self.serving.fetch(request, self.on_closed)
        if not hasattr(answer, "__await__"):
            return answer
        self.waiting = asyncio.ensure_future(answer)
        await settle()
        return self.waiting.result() if self.waiting.done() else None


def fetch(
    offset: int, epoch: int = 1, *, last_epoch: int | None = None, high_watermark: int = 2**63 - 1, wait_ms: int = 500
) -> FetchRequest:
    """Return a Fetch request of the observer with id 7 for the metadata log."""
    last = (epoch if last_epoch is None else last_epoch) if offset else 0
    fetch_partition = FetchPartition(0, epoch, offset, last, high_watermark=high_watermark, replica_directory_id=b"7" * 16)
    topics = [FetchTopic("__cluster_metadata", partitions=[fetch_partition])]
    made = FetchRequest("cluster", max_wait_ms=wait_ms, max_bytes=1 << 20, topics=topics)
    made.replica_state.replica_id = 7
    return made
