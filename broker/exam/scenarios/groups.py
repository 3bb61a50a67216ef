"""What happens to the member of a group in the middle of a batch: a second member joins, or it is expelled and does not know."""

from __future__ import annotations

from broker.exam.scenario import Calm, Scenario, to_members
from broker.exam.stage import Script, Stage, Wait

JOIN_S = 0.5
"""From asking for the coordinator to sending JoinGroup a client takes milliseconds."""
SETTLE_S = 4.0
SESSION_MARGIN_MS = 1_000
_KIP_848_SESSION_MS = 45_000


def rebalance(stage: Stage, calm: Calm) -> Script:
    """A second member joins while the first has a batch in hand; both go on."""
    yield from _second_member(stage, calm)
    stage.release("batch")


def expelled(stage: Stage, calm: Calm) -> Script:
    """The member is expelled while it has a batch in hand (max.poll.interval.ms, a long pause); another takes over and it goes on."""
    yield from _second_member(stage, calm)
    stage.pass_time(max(calm.witness.session_timeout_ms, _KIP_848_SESSION_MS) + SESSION_MARGIN_MS)
    before = stage.witness.calls[calm.mark]
    until = stage.now() + SETTLE_S
    yield Wait(lambda: stage.witness.calls[calm.mark] > before or stage.now() >= until, sure=True)
    stage.release("batch")


def _second_member(stage: Stage, calm: Calm) -> Script:
    stage.fault(f"hold-response:api={calm.mark.name},after={calm.part_way(calm.mark, 0.3)},times=1,name=batch")
    stage.start(1)
    yield stage.held("batch")
    newest = stage.witness.group_finder
    stage.start(2)
    yield Wait(lambda: stage.witness.group_finder > newest, sure=True)
    until = stage.now() + JOIN_S
    yield Wait(lambda: stage.now() >= until, sure=True)


SCENARIOS = (
    Scenario("rebalance", "a second member joins the group in the middle of a batch", rebalance, to_members),
    Scenario("expelled-member", "the member is expelled from its group in the middle of a batch, and goes on", expelled, to_members),
)
