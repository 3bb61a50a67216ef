from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.principal import ANONYMOUS, Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.metadata.streams_topics import StreamsTopics
from ottla.broker.runtime.metadata.topic_making import Requester
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.streams.internal_topics import InternalTopic
from ottla.protocol.error_codes import ErrorCode
from tests.support.simulation import settle

KEPT_MS = 10_000


class Client(NamedTuple):
    host: str = "10.0.0.9"
    principal: Principal = ANONYMOUS
    token_authenticated: bool = False


ASKER = Requester(Client(), "app", lambda _: None)


class Creating:
    """Topic creation that responds when the test permits it; `requests` are the received requests."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.requests: list[tuple[list[NewTopic], Requester | None]] = []
        self.answers: list[asyncio.Future[dict[str, Rejected | None]]] = []
        self.topics = StreamsTopics(self, Nursery(Timers(), self.clock, lambda _: None))  # type: ignore[arg-type] # only create() is used

    async def create(self, topics: Sequence[NewTopic], requester: Requester | None = None) -> dict[str, Rejected | None]:
        self.requests.append((list(topics), requester))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def begin(self, *names: str) -> None:
        self.topics.begin_create({name: InternalTopic(name, 3, 0, {"a": "b"}) for name in names}, ASKER, KEPT_MS)
        await settle()

    async def answer(self, answers: dict[str, Rejected | None] | Rejected) -> None:
        if isinstance(answers, Rejected):
            self.answers[-1].set_exception(answers)
        else:
            self.answers[-1].set_result(answers)
        await settle()


async def test_a_topic_is_requested_on_behalf_of_the_client_and_once_at_a_time() -> None:
    creating = Creating()
    await creating.begin("a")
    await creating.begin("a", "b")
    assert creating.requests == [
        ([NewTopic("a", 3, -1, configs=(("a", "b"),))], ASKER),
        ([NewTopic("b", 3, -1, configs=(("a", "b"),))], ASKER),
    ]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_failure_is_kept_for_a_while_in_which_the_topic_is_not_requested_again(whole: bool) -> None:
    creating = Creating()
    await creating.begin("a")
    error = Rejected(ErrorCode.POLICY_VIOLATION, "too many")
    await creating.answer(error if whole else {"a": error})
    creating.clock.advance(KEPT_MS - 1)
    await creating.begin("a")
    assert creating.topics.failures(["a", "b"]) == {"a": "too many"}
    assert len(creating.requests) == 1
    creating.clock.advance(1)
    await creating.begin("a")
    assert creating.topics.failures(["a"]) == {}
    assert len(creating.requests) == 2


async def test_a_failure_without_a_text_is_named_by_its_error() -> None:
    creating = Creating()
    await creating.begin("a", "b")
    await creating.answer({"a": Rejected(ErrorCode.REQUEST_TIMED_OUT), "b": None})
    assert creating.topics.failures(["a", "b"]) == {"a": "REQUEST_TIMED_OUT"}


async def test_the_oldest_failures_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_TOPIC_FAILURES", 2)
    creating = Creating()
    for name in "abc":
        await creating.begin(name)
        await creating.answer({name: Rejected(ErrorCode.POLICY_VIOLATION, name)})
        creating.clock.advance(1)
    assert creating.topics.failures("abc") == {"b": "b", "c": "c"}
