"""A data directory with topics, groups and transactions, without sockets: opened, crashed and opened again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.faults.engine import Faults
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.txn_markers import LocalMarkers
from ottla.broker.runtime.coordination.txn_service import TxnResult, TxnService
from ottla.broker.runtime.metadata.cluster_view import ClusterView
from ottla.broker.runtime.metadata.producer_ids import ProducerIds
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_values import Isolation
from ottla.broker.txns.decide import Expected
from ottla.broker.txns.transaction import TopicPartition, Transaction
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import NO_SEQUENCE, split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.partition_logs import append_verified
from tests.support.simulation import settle
from tests.support.topic_dirs import TopicDir

T = TypeVar("T")
SETTINGS = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}


def now(answer: T | asyncio.Future[T]) -> T:
    """Return `answer`, or the result of the future `answer`, which must be done already."""
    return answer.result() if isinstance(answer, asyncio.Future) else answer


class TxnDir(TopicDir):
    """A broker's services over the data directory `path`, with groups and transactions. The constructor opens it; `close` or `crash` ends
    its use. Call `load` before any other operation. `pass_ms` advances the clock and runs what is due."""

    def __init__(self, path: Path, *, files: Files = FILES, settings: BrokerSettings | None = None) -> None:
        self.crashed = False
        super().__init__(path, files=files, settings=settings or BrokerSettings(**SETTINGS))  # type: ignore[arg-type] # all are ints
        in_force = self.settings
        self.groups = GroupService(
            in_force,
            self.nursery,
            self.partitions,
            self.topics.ensure,
            cluster=ClusterView(self.catalog, self.partitions, in_force.node_id),
        )
        self.producer_ids = ProducerIds(self.topics.allocate_producer_ids, self.nursery)
        self.txns = TxnService(
            in_force,
            self.nursery,
            self.partitions,
            send_marker=LocalMarkers(self.partitions, self.groups).write_as_only_coordinator,
            producer_ids=self.producer_ids,
            create_topic=self.topics.ensure,
            catalog=self.catalog,
            faults=Faults(),
        )

    async def load(self) -> TxnDir:
        await self.groups.load()
        await self.txns.load()
        ids = asyncio.ensure_future(self.producer_ids.wait())
        await asyncio.wait({ids, self.failed}, return_when=asyncio.FIRST_COMPLETED)
        if not ids.cancel():
            ids.exception()  # the disk has failed: requests that need an id report it
        return self

    async def make_topics(self, *topics: tuple[str, int]) -> None:
        await self.decisions.create_topics([NewTopic(name, partitions) for name, partitions in topics])
        await self.groups.shards.create_topic()
        await self.txns.shards.create_topic()

    def tick(self, ms: int) -> None:
        """Advance the clock and run the timers that are due, but no task."""
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())

    async def pass_ms(self, ms: int) -> None:
        self.tick(ms)
        await settle()

    def crash(self) -> None:
        """Stop without writing anything, as after SIGKILL. May be called repeatedly."""
        if self.crashed:
            return
        self.crashed = True
        if hasattr(self, "txns"):  # not if opening failed
            self.groups.stop()
            self.txns.stop()
            self.nursery.crash()
        super().crash()

    # --- a producer's steps ------------------------------------------------------------------------------------------------------

    def init(self, transactional_id: str = "tx", expected: tuple[int, int] | None = None) -> TxnResult:
        return now(self.txns.init_producer_id(transactional_id, 60_000, None if expected is None else Expected(*expected)))

    def add(self, producer: TxnResult, *places: TopicPartition, version: int = 2, transactional_id: str = "tx") -> ErrorCode:
        return now(self.txns.add_partitions(transactional_id, producer.producer_id, producer.producer_epoch, frozenset(places), version))

    def end(self, producer: TxnResult, *, commit: bool, version: int = 2, transactional_id: str = "tx") -> TxnResult:
        return now(
            self.txns.end_txn(transactional_id, producer.producer_id, producer.producer_epoch, commit=commit, client_version=version)
        )

    def write(self, producer: TxnResult, place: TopicPartition, sequence: int = 0) -> int:
        batch = build_batch(
            [SimpleRecord(None, b"x", self.clock.now_ms())],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return append_verified(self.partitions.get(*place), batch).first_offset

    def commit_offset(self, producer: TxnResult, offset: int) -> list[ErrorCode]:
        commit = Commit(group_id="g", transactional=True, offsets=[OffsetToCommit("in", 0, offset)])
        place = (producer.producer_id, producer.producer_epoch)
        guard = self.groups.offsets_partition("g").start_verification(*place, NO_SEQUENCE)
        return now(self.groups.commit_transactional(commit, *place, guard))

    # --- observable state --------------------------------------------------------------------------------------------------------

    def transaction(self, transactional_id: str = "tx") -> Transaction:
        found = self.txns.get(transactional_id)
        assert found is not None
        return found

    def is_stable(self, place: TopicPartition) -> bool:
        """Return whether the partition has no open transaction that holds its last stable offset back."""
        log = self.partitions.get(*place).log
        return log.last_stable_offset == log.log_end_offset

    def outcomes(self, place: TopicPartition) -> list[ControlType | None]:
        """Return the kinds of the partition's markers in order; repeated markers of one transaction count once."""
        log = self.partitions.get(*place).log
        records = bytes(log.read(0, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records)
        found: list[ControlType | None] = []
        of: list[tuple[int, int]] = []
        for position, header in split_batches(records):
            if header.is_control and (header.producer_id, header.producer_epoch) not in of:
                found.append(parse_marker(records[position : position + header.size_bytes]).type)
                of.append((header.producer_id, header.producer_epoch))
        return found

    def committed_offset(self) -> int:
        """Return the committed offset of group "g" for partition 0 of "in"; -1 without one."""
        ((_, (fetched,)),) = now(self.groups.fetch("g", [("in", [0])], require_stable=False))
        return fetched.offset

    @property
    def offsets_place(self) -> TopicPartition:
        return CONSUMER_OFFSETS, self.groups.offsets_partition("g").index
