"""Decisions of the active controller, and when their responses are sent."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from ottla.broker.cluster.registrations import InconsistentRecord
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.protocol.error_codes import ErrorCode
from tests.support.simulation import settle
from tests.support.voter_harness import LEVEL, VoterHarness


class Decided:
    """An active controller on the quorum's only voter."""

    def __init__(self) -> None:
        self.harness = VoterHarness()
        voter = self.harness.begin()
        state = ControllerState("cluster", BrokerSettings(node_id=1), Random(1), [1])
        self.controller = ActiveController(state, voter, self.harness.failures.append)

    def set(self, value: str) -> asyncio.Task[str | None]:
        """Set a config and return its previous value."""

        def decide(state: ControllerState) -> Effects[MetadataRecord, str | None]:
            return Effects([ConfigRecord(2, "t", "name", value)], state.catalog.configs(2, "t").get("name"))

        return asyncio.ensure_future(self.controller.run(decide))

    def get(self) -> asyncio.Task[str | None]:
        return asyncio.ensure_future(self.controller.run(lambda state: Effects([], state.catalog.configs(2, "t").get("name"))))


@pytest.fixture
async def decided() -> Decided:
    made = Decided()
    await made.controller.run(lambda _: Effects([FeatureLevelRecord(METADATA_VERSION, LEVEL)], None))
    return made


async def test_decisions_see_earlier_ones_and_are_answered_when_durable(decided: Decided) -> None:
    decided.harness.threads.holds = True
    first, second, read = decided.set("a"), decided.set("b"), decided.get()
    await settle()
    assert not any(task.done() for task in (first, second, read))
    decided.harness.threads.run_all()
    await settle()
    assert (first.result(), second.done(), read.done()) == (None, False, False)
    decided.harness.threads.run_all()
    await settle()
    assert (second.result(), read.result()) == ("a", "b")


async def test_a_refused_decision_writes_nothing(decided: Decided) -> None:
    end_offset = decided.harness.voter.end_offset

    def refuse(_: ControllerState) -> Effects[MetadataRecord, None]:
        raise Rejected(ErrorCode.INVALID_REQUEST, "no")

    with pytest.raises(Rejected):
        await decided.controller.run(refuse)
    assert decided.harness.voter.end_offset == end_offset


async def test_a_validate_only_decision_is_answered_and_not_written(decided: Decided) -> None:
    end_offset = decided.harness.voter.end_offset
    answer = await decided.controller.run(lambda _: Effects([ConfigRecord(2, "t", "name", "x")], "fine"), validate_only=True)
    assert (answer, decided.harness.voter.end_offset, await decided.get()) == ("fine", end_offset, None)


async def test_records_that_contradict_the_image_are_not_written(decided: Decided) -> None:
    end_offset = decided.harness.voter.end_offset
    records = [ConfigRecord(2, "t", "name", "x"), FeatureLevelRecord(METADATA_VERSION, 99)]
    with pytest.raises(InconsistentRecord, match=r"metadata\.version 99"):
        await decided.controller.run(lambda _: Effects(records, None))
    assert (decided.harness.voter.end_offset, decided.harness.failures) == (end_offset, [])
    assert await decided.get() is None


async def test_records_that_are_too_large_for_one_batch_are_refused(decided: Decided) -> None:
    end_offset = decided.harness.voter.end_offset
    records = [ConfigRecord(2, "t", f"name{number}", "x" * 32_000) for number in range(270)]
    with pytest.raises(Rejected, match="exceeds the maximum allowed batch size") as refusal:
        await decided.controller.run(lambda _: Effects(records, None))
    assert refusal.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert (decided.harness.voter.end_offset, decided.harness.failures) == (end_offset, [])
    assert await decided.get() is None


async def test_a_disk_error_stops_the_process_and_is_no_bug(decided: Decided, caplog: pytest.LogCaptureFixture) -> None:
    decided.harness.files.make_read_only()
    with pytest.raises(Rejected, match="cannot append"):
        await decided.set("a")
    assert len(decided.harness.failures) == 1
    assert [line.exc_info for line in caplog.records if "cannot be written or applied" in line.message] == [None]
