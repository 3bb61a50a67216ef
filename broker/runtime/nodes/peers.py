"""What a broker asks of the cluster's other brokers for its own work: links to them, and requests that carry all that waits for one.

Rules: one request is under way for each broker; what comes meanwhile goes in the next one. A broker that is not registered, or fenced, is
not dialled: who asks finds out at once, and may come again (Kafka's InterBrokerSendThread).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.nodes.link import Connect, Link, LinkBroken, Node
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import Message

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

AddressOf = Callable[[int], "Node | None"]
"""Where a broker listens for others; None while it is not registered, or fenced."""


class Peers:
    """Links of one kind of work, by the brokers' ids: made when one is first asked, and anew when it has another address."""

    def __init__(self, connect: Connect, address_of: AddressOf, answer_ms: int) -> None:
        self._connect = connect
        self._address_of = address_of
        self._answer_ms = answer_ms
        self._links: dict[int, tuple[Node, Link]] = {}

    def has(self, node: int) -> bool:
        """Whether the broker can be dialled."""
        return self._address_of(node) is not None

    async def call(self, node: int, request: Message) -> Any:
        """The broker's response. Raises LinkBroken and UnsupportedByPeer."""
        address = self._address_of(node)
        if address is None:
            raise LinkBroken(f"broker {node} is away")
        known, link = self._links.get(node, (None, None))
        if link is not None and known != address:
            link.close()
        if link is None or known != address:
            link = self._connect(address)
            self._links[node] = address, link
        return await link.call(request, timeout_ms=self._answer_ms)

    def close(self) -> None:
        """Hang up."""
        for _, link in self._links.values():
            link.close()


@dataclass(slots=True, eq=False)
class Asked(Generic[QuestionT, AnswerT]):
    """Something that is asked, and the future of its answer."""

    question: QuestionT
    answer: asyncio.Future[AnswerT]

    def settle(self, answer: AnswerT) -> None:
        """This is the answer."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """There is none."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # seen, also where nobody waits any more


class Batches(Generic[QuestionT, AnswerT]):
    """`ask(node, asked)` makes one request of them, and settles each or leaves it to the next request, but never all of them."""

    def __init__(self, ask: Callable[[int, Sequence[Asked[QuestionT, AnswerT]]], Awaitable[None]]) -> None:
        self._ask = ask
        self._waiting: dict[int, list[Asked[QuestionT, AnswerT]]] = {}
        self._under_way: dict[int, list[Asked[QuestionT, AnswerT]]] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}

    def put(self, node: int, question: QuestionT) -> asyncio.Future[AnswerT]:
        """The broker's answer, in a future that fails with Rejected where there is none."""
        loop = asyncio.get_running_loop()
        asked: Asked[QuestionT, AnswerT] = Asked(question, loop.create_future())
        self._waiting.setdefault(node, []).append(asked)
        if node not in self._workers:
            self._workers[node] = loop.create_task(self._work(node))
        return asked.answer

    def end(self) -> None:
        """Ask nothing more; who waits is told so."""
        for worker in self._workers.values():
            worker.cancel()
        for each in [*self._waiting.values(), *self._under_way.values()]:
            for asked in each:
                asked.fail(Rejected(ErrorCode.NETWORK_EXCEPTION, "this broker stops"))
        self._waiting.clear()

    async def _work(self, node: int) -> None:
        """Ends when nothing waits for the broker."""
        try:
            while waiting := self._waiting.pop(node, None):
                batch, later = waiting[: limits.QUESTIONS_PER_REQUEST], waiting[limits.QUESTIONS_PER_REQUEST :]
                self._under_way[node] = batch
                if later:
                    self._waiting[node] = later
                try:
                    await self._ask(node, batch)
                except Exception as error:  # noqa: BLE001 # whatever it is, it is for whoever asked, and the next ones have their turn
                    for asked in batch:
                        asked.fail(error)
                left = [asked for asked in batch if not asked.answer.done()]
                if left:
                    self._waiting[node] = left + self._waiting.get(node, [])
        finally:
            self._under_way.pop(node, None)
            del self._workers[node]
