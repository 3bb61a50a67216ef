"""A broker that leads some partitions on a disk in memory, with a method for each event that may change its responses in fetch sessions.

After equal events, two such brokers must return equal responses, although one of them (`walks`) reads all partitions of a session for each
request, and the other only those that changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.broker.api import k01_fetch
from ottla.broker.api.context import Traffic
from ottla.broker.core.acl import Resource
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.in_sync import Accepted
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.replicas.fetch_purgatory import FetchPurgatory
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchRequest, FetchResponse
from ottla.protocol.records.record import SimpleRecord, build_batch

TOPICS = ("t", "u")
EACH = 4
LEADER, NODES = 1, (1, 2, 3)
LAG_MS = 1_000


class Rights:
    """A stand-in for `ottla.broker.api.authorizer.Authorizer` that denies the topics in `refused`."""

    def __init__(self) -> None:
        self.version = 1
        self.refused: frozenset[str] = frozenset()

    def allowed(self, _: object, __: object, resource: Resource, name: str, **___: object) -> bool:
        return (name if resource is Resource.TOPIC else "cluster") not in self.refused

    def is_super_user(self, _: object) -> bool:
        return False


class FetchingLeader:
    """A broker that leads all partitions of TOPICS, and its fetch sessions. With `walks`, a request reads all partitions of its session,
    not only the changed ones."""

    def __init__(self, *, walks: bool) -> None:
        self.walks = walks
        self.clock, self.rights, self.timers = VirtualClock(), Rights(), Timers()
        self.brokers = Brokers(own_epoch=LEADER)
        self.brokers.liveness = {node: BrokerLiveness(node) for node in NODES}
        self.proposed: list[Partition] = []
        self.flusher = Flusher(print, InlineThreads)
        context = ClusterContext(self.brokers, self.proposed.append, lambda *_: False, LAG_MS)
        self.partitions = Partitions(self.flusher, self.clock, context)
        self.log_dir = LogDir.open(Path("/data"), BrokerSettings(), self.clock.now_ms(), files=MemoryFiles(), threads=InlineThreads)
        self.registered: dict[tuple[str, int], Registration] = {}
        for topic in TOPICS:
            for index in range(EACH):
                self.serve(topic, index)
        ids = count(1)
        self.sessions = FetchSessions(10, lambda: next(ids))
        self.waits = FetchPurgatory(self.timers)
        self.services = SimpleNamespace(
            authorizer=self.rights,
            clock=self.clock,
            cluster=SimpleNamespace(current_leader=lambda *_: (-1, -1), alive_broker=lambda *_: None),
            fetch_sessions=self.sessions,
            fetch_purgatory=self.waits,
            partitions=self.partitions,
            settings=BrokerSettings(),
            topics=SimpleNamespace(topic_by_id=lambda _: None),
            traffic=Traffic(),
        )

    def close(self) -> None:
        self.flusher.close()
        self.log_dir.close(clean=False)

    def get(self, topic: str, index: int) -> Partition | None:
        try:
            return self.partitions.get(topic, index)
        except Rejected:
            return None

    def fetch(self, request: FetchRequest, *, version: int = 12) -> FetchResponse | asyncio.Task[FetchResponse]:
        """Return the response to a fetch; if the fetch waits, a task whose result is the response."""
        peer = SimpleNamespace(principal=Principal("User", "a"), host="h", on_closed={}, client_listener=None)
        ctx: Any = SimpleNamespace(services=self.services, version=version, peer=peer, api_key=1)
        answer = k01_fetch.handle(ctx, request)
        if isinstance(answer, FetchResponse):
            self._forget_what_is_clean()
            return answer

        async def later() -> FetchResponse:
            try:
                return await answer
            finally:
                self._forget_what_is_clean()

        return asyncio.get_running_loop().create_task(later())

    def _forget_what_is_clean(self) -> None:
        for session in self.sessions if self.walks else ():
            for cached in session.partitions.values() if session.waiter is None else ():
                session.mark_dirty(cached)

    @property
    def dirty(self) -> Counter[int]:
        """Return, by session id, how many partitions the session's next request will read: those that may have changed."""
        return Counter({session.session_id: len(session.dirty) for session in self.sessions})

    def state(self) -> list[object]:
        """Return each partition's offsets, followers and ISR according to its leader."""
        found: list[object] = []
        for partition in self.partitions:
            log, replica = partition.log, partition.replica
            others = {}
            for node, progress in replica.leadership.followers.items():
                progress.refresh()
                times = (progress.caught_up_ms, progress.fetched_ms, progress.leader_end)
                others[node] = (progress.log_start, progress.log_end, progress.broker_epoch, *times)
            in_sync = replica.leadership.in_sync
            offsets = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
            found.append((partition.topic, partition.index, offsets, others, in_sync))
        return found

    # --- what happens ------------------------------------------------------------------------------------------------------------

    def serve(self, topic: str, index: int) -> None:
        """Create the partition on this broker as its leader, in the next leader epoch."""
        log = self.log_dir.create_log(topic, index, topic.encode() * 16, LogConfig())
        log.verifies_transactions = False
        partition = self.partitions.add(log)
        before = self.registered.get((topic, index), Registration(LEADER, NODES, NODES, 0, 0))
        self.register(partition, before._replace(leader=LEADER, leader_epoch=before.leader_epoch + 1))

    def register(self, partition: Partition, registration: Registration) -> None:
        """Apply a metadata record that gives the partition this leader and ISR, in the next partition epoch."""
        registration = registration._replace(partition_epoch=registration.partition_epoch + 1)
        self.registered[partition.topic, partition.index] = registration
        with suppress(Rejected):  # the log is offline
            partition.lead(registration) if registration.leader == LEADER else partition.follow(registration)

    def produce(self, partition: Partition, values: int, *, producer: int = -1) -> None:
        """Append a batch, transactional if there is a producer id. An append that the partition rejects has no effect."""
        records = [SimpleRecord(None, b"v", 0) for _ in range(values)]
        sequence = -1
        if producer >= 0:
            entry = partition.log.producer_state.get(producer)
            sequence = 0 if entry is None or entry.last_sequence < 0 else entry.last_sequence + 1
        epoch = 0 if producer >= 0 else -1
        batch = build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=producer >= 0)
        with suppress(Rejected):
            partition.append(batch)

    def end_transaction(self, partition: Partition, producer: int, *, commit: bool) -> None:
        with suppress(Rejected):
            partition.append_marker(TxnMarker(producer, 0, commit, 0, 0))

    def delete_records(self, partition: Partition, offset: int) -> None:
        with suppress(Rejected):
            partition.log.delete_records_before(offset)

    def answer_proposals(self, *, accept: bool) -> None:
        """Answer all proposed ISR changes as the controller does: apply them, or reject them with INELIGIBLE_REPLICA."""
        for partition in self.proposed:
            proposal = partition.replica.proposal
            if proposal is None or partition.removed:
                continue
            if not accept:
                partition.proposal_completed(proposal, ErrorCode.INELIGIBLE_REPLICA)
                continue
            known = self.registered[partition.topic, partition.index]
            isr = tuple(member.node for member in proposal.members)
            registration = known._replace(isr=isr, partition_epoch=known.partition_epoch + 1)
            self.registered[partition.topic, partition.index] = registration
            partition.proposal_completed(proposal, Accepted(registration.leader_epoch, registration.partition_epoch, frozenset(isr)))
        self.proposed.clear()
