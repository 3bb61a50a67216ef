"""Faults of group members in the middle of a batch: a second member joins, or the member is expelled without knowing."""

from __future__ import annotations

from collections.abc import Generator

from ottla.broker.verification.scenario import Calm, Scenario, to_members
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

SETTLE_S = 4.0
"""Time for the other members to continue the work of an expelled member."""


def rebalance(stage: Stage, calm: Calm) -> Script:
    """Let a second member join while the first processes a batch; both continue."""
    joined = yield from second_member(stage, calm)
    stage.release("batch")
    if not joined:
        yield NEVER


def expelled(stage: Stage, calm: Calm) -> Script:
    """Expel the member while it processes a batch (max.poll.interval.ms, a long pause); another takes over, and the member continues."""
    joined = yield from second_member(stage, calm)
    stage.expire_members(calm.session_ms)
    before = stage.observer.calls[calm.progress_api]
    until = stage.now() + SETTLE_S
    yield Wait(lambda: stage.observer.calls[calm.progress_api] > before or stage.now() >= until, sure=True)
    stage.release("batch")
    if not joined:
        yield NEVER


def second_member(stage: Stage, calm: Calm) -> Generator[Wait, None, bool]:
    """Hold the first member's batch until a second one is in the group; return False if the second one ended instead.

    The batch is held when it is written but not committed: the response to a Produce is held, or the commit before it is handled.
    """
    action = "hold-request" if calm.progress_api in {ApiKey.OFFSET_COMMIT, ApiKey.SHARE_ACKNOWLEDGE} else "hold-response"
    stage.fault(f"{action}:api={calm.progress_api.name},after={calm.part_way(calm.progress_api, 0.3)},times=1,name=batch")
    stage.start(1)
    yield stage.held("batch")
    alone = stage.members()
    second = stage.start(2)
    yield Wait(lambda: stage.members() > alone or second.exit_code == 0, sure=True)
    return second.exit_code is None


SCENARIOS = (
    Scenario("rebalance", "a second member joins the group in the middle of a batch", rebalance, to_members),
    Scenario("expelled-member", "the member is expelled from its group in the middle of a batch, and continues", expelled, to_members),
)
