"""Requests of this broker to the cluster's other brokers: connections to them, and batching of operations into requests.

Invariants (Kafka's InterBrokerSendThread):
- At most one request is in flight to each broker; operations that arrive meanwhile go into the next one.
- A broker that is unregistered or fenced is not contacted: the caller fails at once and may retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.nodes.link import Connect, Link, LinkBroken, Node, UnsupportedByPeer
from ottla.broker.runtime.upkeep.nursery import Job, Nursery
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import Message

OperationT = TypeVar("OperationT")
ResultT = TypeVar("ResultT")

AddressOf = Callable[[int], "Node | None"]
"""A function that returns the address of a broker's inter-broker listener; None while the broker is unregistered or fenced."""


class Peers:
    """One component's own connections (links) to other brokers. A link is created at the first call to a broker, and created again when
    that broker's address has changed.
    """

    def __init__(self, connect: Connect, address_of: AddressOf, request_timeout_ms: int) -> None:
        self._connect = connect
        self._address_of = address_of
        self._timeout_ms = request_timeout_ms
        self._links: dict[int, tuple[Node, Link]] = {}

    def has(self, node: int) -> bool:
        """Return whether broker `node` can be contacted: it is registered and not fenced."""
        return self._address_of(node) is not None

    async def call(self, node: int, request: Message) -> Any:
        """Send `request` to broker `node` and return the response. Raises LinkBroken if the connection fails or the broker is unregistered
        or fenced, UnsupportedByPeer if the two brokers have no version of the API in common.
        """
        address = self._address_of(node)
        if address is None:
            raise LinkBroken(f"broker {node} is away")
        known, link = self._links.get(node, (None, None))
        if link is not None and known != address:
            link.close()
        if link is None or known != address:
            link = self._connect(address)
            self._links[node] = address, link
        return await link.call(request, timeout_ms=self._timeout_ms)

    async def ask(self, node: int, request: Message) -> Any:
        """Send `request` to broker `node` and return the response. Raises Rejected(NETWORK_EXCEPTION) if there is no response."""
        try:
            return await self.call(node, request)
        except (LinkBroken, UnsupportedByPeer) as error:
            raise Rejected(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def close(self) -> None:
        """Close the links to all brokers."""
        for _, link in self._links.values():
            link.close()


@dataclass(slots=True, eq=False)
class PendingOperation(Generic[OperationT, ResultT]):
    """An operation that a caller has asked another broker to perform, and the future of its result. One request carries several
    operations."""

    operation: OperationT
    result: asyncio.Future[ResultT]

    def settle(self, result: ResultT) -> None:
        """Complete the caller's future with `result`, the other broker's result."""
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: Exception) -> None:
        """Fail the caller's future with `error`."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # mark the exception as retrieved: asyncio must not log it if the waiter was cancelled


class OperationBatcher(Generic[OperationT, ResultT]):
    """Sends all pending operations for a broker together in one request. `name` is the name of the operations in log lines.

    `send(node, batch)` sends one request to broker `node`. It must settle or fail (`PendingOperation`) at least one operation of `batch`;
    the others go into the next request.
    """

    def __init__(
        self, nursery: Nursery, name: str, send: Callable[[int, Sequence[PendingOperation[OperationT, ResultT]]], Awaitable[None]]
    ) -> None:
        self._nursery = nursery
        self._name = name
        self._send = send
        self._waiting: dict[int, list[PendingOperation[OperationT, ResultT]]] = {}
        self._under_way: dict[int, list[PendingOperation[OperationT, ResultT]]] = {}
        self._workers: dict[int, Job] = {}

    def put(self, node: int, operation: OperationT) -> asyncio.Future[ResultT]:
        """Queue an operation for broker `node`. Return the future of the operation's result; the future fails with Rejected if the
        operation fails.
        """
        pending: PendingOperation[OperationT, ResultT] = PendingOperation(operation, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(node, []).append(pending)
        if node not in self._workers:
            self._workers[node] = self._nursery.worker(f"{self._name} to broker {node}", partial(self._work, node))
        self._workers[node].wake()
        return pending.result

    def end(self) -> None:
        """Fail the futures of all pending operations with NETWORK_EXCEPTION, because this broker is shutting down."""
        for each in [*self._waiting.values(), *self._under_way.values()]:
            for pending in each:
                pending.fail(Rejected(ErrorCode.NETWORK_EXCEPTION, "this broker is shutting down"))
        self._waiting.clear()

    async def _work(self, node: int) -> None:
        """Send the pending operations for broker `node` in batches, until none is left."""
        while waiting := self._waiting.pop(node, None):
            batch, later = waiting[: limits.OPERATIONS_PER_REQUEST], waiting[limits.OPERATIONS_PER_REQUEST :]
            self._under_way[node] = batch
            if later:
                self._waiting[node] = later
            with self._nursery.step("%s to broker %d", self._name, node) as step:
                await self._send(node, batch)
            if step.error is not None:
                for pending in batch:
                    pending.fail(step.error)
            left = [pending for pending in batch if not pending.result.done()]
            if left:
                self._waiting[node] = left + self._waiting.get(node, [])
        self._under_way.pop(node, None)  # there is none if `end` took the operations before this task's first turn
