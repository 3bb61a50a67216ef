"""What happens to the member of a group in the middle of a batch: a second member joins, or it is expelled and does not know."""

from __future__ import annotations

from collections.abc import Generator

from ottla.broker.verification.scenario import Calm, Scenario, to_members
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

SETTLE_S = 4.0
"""How long the others may take to go on with the work of a member that is expelled."""
SESSION_MARGIN_MS = 1_000


def rebalance(stage: Stage, calm: Calm) -> Script:
    """A second member joins while the first has a batch in hand; both go on."""
    joined = yield from _second_member(stage, calm)
    stage.release("batch")
    if not joined:
        yield NEVER


def expelled(stage: Stage, calm: Calm) -> Script:
    """The member is expelled while it has a batch in hand (max.poll.interval.ms, a long pause); another takes over and it goes on."""
    joined = yield from _second_member(stage, calm)
    stage.pass_time(calm.session_ms + SESSION_MARGIN_MS)
    before = stage.observer.calls[calm.mark]
    until = stage.now() + SETTLE_S
    yield Wait(lambda: stage.observer.calls[calm.mark] > before or stage.now() >= until, sure=True)
    stage.release("batch")
    if not joined:
        yield NEVER


def _second_member(stage: Stage, calm: Calm) -> Generator[Wait, None, bool]:
    """Hold the first member's batch until a second one is in the group; False when that one ended instead.

    In hand is what is written and not committed: the answer to a Produce is held, or the commit before it arrives.
    """
    action = "hold-request" if calm.mark is ApiKey.OFFSET_COMMIT else "hold-response"
    stage.fault(f"{action}:api={calm.mark.name},after={calm.part_way(calm.mark, 0.3)},times=1,name=batch")
    stage.start(1)
    yield stage.held("batch")
    alone = stage.members()
    second = stage.start(2)
    yield Wait(lambda: stage.members() > alone or second.exit_code == 0, sure=True)
    return second.exit_code is None


SCENARIOS = (
    Scenario("rebalance", "a second member joins the group in the middle of a batch", rebalance, to_members),
    Scenario("expelled-member", "the member is expelled from its group in the middle of a batch, and goes on", expelled, to_members),
)
