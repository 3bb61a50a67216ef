"""Scenarios of `ottla verify` with faults of group members in the middle of a batch: a second member joins, or the member is expelled and
is not notified."""

from __future__ import annotations

from collections.abc import Generator

from ottla.broker.verification.scenario import Baseline, Scenario, to_members
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

TAKEOVER_S = 4.0
"""Time limit in seconds for another member to take over the work of an expelled member."""


def rebalance(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `rebalance`: let a second instance of the program under test join the group while the first is in the middle of a
    batch; then both continue."""
    joined = yield from second_member(stage, baseline)
    stage.release("batch")
    if not joined:
        yield NEVER


def expelled(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `expelled-member`: expel a group member in the middle of a batch, as after a pause longer than its session timeout.
    Another member takes over the partitions; then the expelled member continues with its batch."""
    joined = yield from second_member(stage, baseline)
    stage.expire_members(baseline.session_ms)
    before = stage.observer.calls[baseline.progress_api]
    until = stage.now() + TAKEOVER_S
    yield Wait(lambda: stage.observer.calls[baseline.progress_api] > before or stage.now() >= until, must_hold=True)
    stage.release("batch")
    if not joined:
        yield NEVER


def second_member(stage: Stage, baseline: Baseline) -> Generator[Wait, None, bool]:
    """Start the program under test, hold its batch at the broker, and start a second instance. Wait until the second is in the group, and
    return whether it still runs.

    A batch is held after it is written and before it is committed: either the response to a Produce is held, or the commit request is held
    before it is handled.
    """
    action = "hold-request" if baseline.progress_api in {ApiKey.OFFSET_COMMIT, ApiKey.SHARE_ACKNOWLEDGE} else "hold-response"
    stage.fault(f"{action}:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api, 0.3)},times=1,name=batch")
    stage.start(1)
    yield stage.held("batch")
    alone = stage.members()
    second = stage.start(2)
    yield Wait(lambda: stage.members() > alone or second.exit_code == 0, must_hold=True)
    return second.exit_code is None


SCENARIOS = (
    Scenario("rebalance", "a second member joins the group in the middle of a batch", rebalance, to_members),
    Scenario("expelled-member", "the member is expelled from its group in the middle of a batch, and continues", expelled, to_members),
)
