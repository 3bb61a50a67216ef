from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.metadata.topic_making import AutoCreation
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from tests.support.simulation import settle


class Making:
    """Topic creation that responds when the test permits it."""

    def __init__(self) -> None:
        self.nursery = Nursery(Timers(), VirtualClock(), lambda _: None)
        self.requests: list[list[str]] = []
        self.answer: asyncio.Future[dict[str, Rejected | None]] = asyncio.get_running_loop().create_future()
        self.creation = AutoCreation(self.nursery)

    async def create(self, names: Sequence[str]) -> dict[str, Rejected | None]:
        self.requests.append(list(names))
        return await asyncio.shield(self.answer)


async def test_a_topic_in_creation_is_not_started_twice() -> None:
    making = Making()
    making.creation.begin(["a", "b"], making.create)
    making.creation.begin(["b", "c"], making.create)
    making.creation.begin(["a"], making.create)
    await settle()
    assert making.requests == [["a", "b"], ["c"]]
    making.answer.set_result({})
    await settle()
    making.creation.begin(["a"], making.create)
    await settle()
    assert making.requests[2:] == [["a"]]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_failed_creation_is_logged_and_can_be_retried(whole: bool, caplog: pytest.LogCaptureFixture) -> None:
    making = Making()
    refusal = Rejected(ErrorCode.POLICY_VIOLATION, "too many")
    making.creation.begin(["a"], making.create)
    await settle()
    if whole:
        making.answer.set_exception(refusal)
    else:
        making.answer.set_result({"a": refusal})
    with caplog.at_level(logging.WARNING):
        await settle()
    assert "too many" in caplog.text
    making.answer = asyncio.get_running_loop().create_future()
    making.creation.begin(["a"], making.create)
    await settle()
    assert making.requests == [["a"], ["a"]]
    making.nursery.crash()
    await settle()
    assert len(asyncio.all_tasks()) == 1
