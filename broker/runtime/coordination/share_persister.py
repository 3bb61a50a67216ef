"""Kafka's Persister of share partition state: calls the share coordinator of each share partition, on this broker or on another one.

Invariants:

* The coordinator is the leader of the `__share_group_state` partition that the share partition's key hashes to; it is looked up for each
  attempt. The first operation creates the topic.
* An operation that fails with a retriable error is retried with growing delays, ATTEMPTS times in all.
* Pending operations of one kind for the same broker and group are sent in one request, which contains each share partition at most once.

Source: Kafka's DefaultStatePersister, PersisterStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.share_operations import (
    DeleteOperation,
    InitializeOperation,
    ReadOperation,
    StateOperation,
    SummaryOperation,
    WriteOperation,
)
from ottla.broker.runtime.coordination.share_state_service import ShareStateService
from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.runtime.nodes.peers import OperationBatcher, Peers, PendingOperation
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateSummary, WrittenState
from ottla.protocol.error_codes import ErrorCode

FIRST_PAUSE_MS: Final = 100
ATTEMPTS: Final = 9
"""How many times an operation on share state is tried before it fails. The pauses in between double from FIRST_PAUSE_MS on: 25 seconds in
all."""

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_KINDS: Final = (InitializeOperation, ReadOperation, WriteOperation, DeleteOperation, SummaryOperation)

ResultT = TypeVar("ResultT")


class SharePersister:
    """A `Persister` of share state that finds each share partition's coordinator in the cluster. `local` is the share coordinator on this
    broker, `node_id`. `peers` are the connections to other brokers; a standalone node has none.

    If an operation fails, its method raises Rejected, or the returned future fails with Rejected.
    """

    def __init__(
        self,
        local: ShareStateService,
        catalog: Catalog,
        node_id: int,
        nursery: Nursery,
        peers: Peers | None = None,
    ) -> None:
        self._local = local
        self._catalog = catalog
        self._node_id = node_id
        self._nursery = nursery
        self._peers = peers
        nursery.at_close(self._end, self._end)
        self._batches: dict[type[StateOperation[Any]], OperationBatcher[StateOperation[Any], Any]] = {
            kind: OperationBatcher(nursery, "share state", self._send_batch) for kind in _KINDS
        }

    # --- operations -----------------------------------------------------------------------------------------------------------

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> asyncio.Future[None] | None:
        """Initialize a share partition's state with a state epoch, a start offset and no delivery states. Return a future that is done when
        the state is durable, None if it is durable already. Raises Rejected, or the future fails with it, for example FENCED_STATE_EPOCH if
        a higher state epoch is stored.
        """
        return self._begin(InitializeOperation(key, state_epoch, start_offset))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState | asyncio.Future[ReadState]:
        """Return a share partition's state, or a future of the state, and store `leader_epoch`, so that writes with a lower leader epoch
        are rejected. Raises Rejected, or the future fails with it, for example FENCED_LEADER_EPOCH if a higher epoch is stored.
        """
        return self._begin(ReadOperation(key, leader_epoch))

    def write(self, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        """Write changes of a share partition's state. Return a future that is done when the changes are durable, or None if they are
        durable already. Raises Rejected, or the future fails with it, for example FENCED_STATE_EPOCH for a lower state epoch than the
        stored one.
        """
        return self._begin(WriteOperation(key, state))

    def delete(self, key: SharePartitionKey) -> asyncio.Future[None] | None:
        """Delete a share partition's state, if there is any. Return a future that is done when the deletion is durable, None if it is
        durable already."""
        return self._begin(DeleteOperation(key))

    def summary(self, key: SharePartitionKey) -> StateSummary | asyncio.Future[StateSummary]:
        """Return a share partition's start offset, state epoch and leader epoch, without its delivery states; or a future of them."""
        return self._begin(SummaryOperation(key))

    def _end(self) -> None:
        for batches in self._batches.values():
            batches.end()
        if self._peers is not None:
            self._peers.close()

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _begin(self, operation: StateOperation[ResultT]) -> ResultT | asyncio.Future[ResultT]:
        """Perform the operation at once if this broker is the share coordinator. Start a task if another broker is, or if the operation has
        to be retried. Return the result, or a future of the result. Raises Rejected for an error that is not retriable.
        """
        begun: asyncio.Future[ResultT] | None = None
        if self._coordinator_of(operation.key) == self._node_id:
            try:
                result = operation.run(self._local)
            except Rejected as rejected:
                if rejected.code not in _RETRIABLE:
                    raise
            else:
                if not isinstance(result, asyncio.Future):
                    return result
                begun = result
        answer: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._nursery.run("share state", partial(self._settle, answer, operation, begun)).add_done_callback(lambda _: answer.cancel())
        return answer

    async def _settle(
        self, answer: asyncio.Future[ResultT], operation: StateOperation[ResultT], begun: asyncio.Future[ResultT] | None
    ) -> None:
        try:
            result = await self._run_with_retries(operation, begun)
        except Rejected as rejected:
            if not answer.done():
                answer.set_exception(rejected)
                answer.exception()  # mark the exception as retrieved: nothing awaits the write after an acquisition lock has expired
        else:
            if not answer.done():
                answer.set_result(result)

    async def _run_with_retries(self, operation: StateOperation[ResultT], begun: asyncio.Future[ResultT] | None) -> ResultT:
        for attempt in range(ATTEMPTS):
            try:
                return await (begun if begun is not None else self._attempt(operation))
            except Rejected as rejected:
                if rejected.code not in _RETRIABLE or attempt == ATTEMPTS - 1:
                    raise
            begun = None
            await pause(self._nursery.timers, self._nursery.clock, FIRST_PAUSE_MS << attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, operation: StateOperation[ResultT]) -> ResultT:
        if not self._local.shards.exist:
            with suppress(Rejected):  # the topic may exist at the next attempt
                await self._local.shards.create_topic()
        coordinator = self._coordinator_of(operation.key)
        if coordinator == self._node_id:
            result = operation.run(self._local)
            return await result if isinstance(result, asyncio.Future) else result
        if self._peers is None or not self._peers.has(coordinator):
            raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        found: ResultT = await self._batches[type(operation)].put(coordinator, operation)
        return found

    def _coordinator_of(self, key: SharePartitionKey) -> int:
        count = self._catalog.partition_count(SHARE_GROUP_STATE)
        return self._catalog.leader_of((SHARE_GROUP_STATE, partition_of(key.coordinator_key, count))) if count else NO_LEADER

    async def _send_batch(self, node: int, batch: Sequence[PendingOperation[StateOperation[Any], Any]]) -> None:
        """Send one request to broker `node` with those operations of `batch` that concern the same group as the first one. The others stay
        pending.
        """
        from ottla.broker.runtime.coordination.share_messages import parts_of, request_for, result_of  # noqa: PLC0415 # only in a cluster

        assert self._peers is not None, "only a cluster broker asks others"
        now: dict[SharePartitionKey, PendingOperation[StateOperation[Any], Any]] = {}
        for pending in batch:
            if pending.operation.key.group_id == batch[0].operation.key.group_id:
                now.setdefault(pending.operation.key, pending)
        try:
            response = await self._peers.call(node, request_for([pending.operation for pending in now.values()]))
        except (LinkBroken, UnsupportedByPeer) as error:
            for pending in now.values():
                pending.fail(Rejected(ErrorCode.NETWORK_EXCEPTION, str(error)))
            return
        parts = parts_of(batch[0].operation.key.group_id, response)
        for key, pending in now.items():
            part = parts.get(key)
            if part is None:
                pending.fail(Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {node} returns no state of {key.coordinator_key}"))
            elif part.error_code != ErrorCode.NONE:
                pending.fail(Rejected(ErrorCode.of(part.error_code), part.error_message or ""))
            else:
                pending.settle(result_of(pending.operation, part))
