"""Mutations for testing the simulation: rules of replication, idempotence and transactions in the broker that are broken on purpose. The
simulation must detect each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.broker.api import k01_fetch
from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.replication.follower import Follower
from ottla.broker.replication.leadership import BLOCKED, Leadership
from ottla.broker.replication.replica import Replica
from ottla.broker.runtime.coordination.txn_completion import TxnCompletion
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.mutation import Mutation, always, nothing
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.log_reader import LogReader
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.producer_state import BATCHES_REMEMBERED, ProducerState
from ottla.protocol.records.batch import BatchHeader


def _no_window(original: Any) -> Callable[..., None]:
    def apply_batch(self: ProducerState, batch: BatchHeader, base_offset: int) -> None:
        original(self, batch, base_offset)
        entry = self.get(batch.producer_id)
        assert entry is not None
        while len(entry.batches) > 1:
            entry.batches.pop(0)

    return apply_batch


def _own_end(original: Any) -> Callable[..., int]:
    def committable(self: Leadership, own_end: int, log_end: int, now_ms: int) -> int:
        return BLOCKED if self.below_min_in_sync else own_end

    return committable


def _unsynced(original: Any) -> Callable[..., int]:
    def appended(self: Replica, log_end: int, now_ms: int, flush_messages: int = INT64_MAX) -> int:
        effects: int = original(self, log_end, now_ms)
        return effects

    return appended


def _cut_at_high_watermark(original: Any) -> Callable[..., None]:
    def __init__(self: Follower, *args: Any) -> None:
        original(self, *args)
        self.truncating, self.fetch_offset = True, self.log.high_watermark

    return __init__


def _joins_at_once(original: Any) -> Callable[..., frozenset[int] | None]:
    def expansion(self: Leadership, node: int, high_watermark: int, log_end: int, now_ms: int) -> frozenset[int] | None:
        current = self.in_sync
        return None if current.proposal is not None or node in current.committed else current.committed | {node}

    return expansion


def _to_the_end(original: Any) -> Callable[..., int]:
    def visible_end_offset(self: PartitionLog, isolation: Isolation) -> int:
        return self.log_end_offset

    return visible_end_offset


def _complete_at_once(original: Any) -> Callable[..., None]:
    def send_all(self: Any, work: Any) -> None:
        for place in sorted(work.left)[1:]:
            work.left.discard(place)
        original(self, work)

    return send_all


OF_BROKERS: Final = (
    Mutation(f"a partition keeps the last {BATCHES_REMEMBERED} batches of a producer", ProducerState, "apply_batch", _no_window),
    Mutation("a repeated batch is recognised", ProducerState, "find_duplicate_in_memory", nothing),
    Mutation("a batch has the next sequence", ProducerState, "check_batch", nothing),
    Mutation("the high watermark waits for every in-sync replica", Leadership, "committable", _own_end),
    Mutation("acks=all waits for the high watermark", Partition, "when", nothing),
    Mutation("with flush.messages=1 no record is acknowledged before it is synced", Replica, "appended", _unsynced),
    Mutation("with flush.messages=1 a follower fetches more only after it synced what it has", Partition, "sync_is_due", always(False)),
    Mutation(
        "a follower truncates to where the leader's epoch ended, not to its high watermark", Follower, "__init__", _cut_at_high_watermark
    ),
    Mutation("a diverging log is truncated", k01_fetch, "_diverging", nothing),
    Mutation("a truncated log forgets the leader epochs of the removed records", LeaderEpochs, "truncate_from_end", nothing),
    Mutation("a fetch with another leader epoch is rejected", Replica, "check_epoch", nothing),
    Mutation("a replica that joins the ISR has every committed record", Leadership, "expansion", _joins_at_once),
    Mutation("nobody reads beyond the high watermark", PartitionLog, "visible_end_offset", _to_the_end),
    Mutation(
        "read_committed ends at the first open transaction", PartitionLog, "last_stable_offset", lambda _: lambda log: log.high_watermark
    ),
    Mutation("fetch responses list the aborted transactions", LogReader, "aborted", always([])),
    Mutation("a transaction is complete when every partition has its marker", TxnCompletion, "_send_all", _complete_at_once),
)
