"""Faults of share group members: their locks expire while they work."""

from __future__ import annotations

from ottla.broker.verification.scenario import Calm, Scenario, to_share_members
from ottla.broker.verification.scenarios.groups import second_member
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait

LOCK_MS = 30_000
"""The default of share.record.lock.duration.ms."""
MARGIN_MS = 1_000


def lock_timeout(stage: Stage, calm: Calm) -> Script:
    """Let the member's locks expire before its acknowledgement arrives (share.record.lock.duration.ms); a second one gets the records."""
    joined = yield from second_member(stage, calm)
    stage.pass_time(LOCK_MS + MARGIN_MS)
    before = stage.observer.calls[calm.mark]
    yield Wait(lambda: stage.observer.calls[calm.mark] > before)
    stage.release("batch")
    if not joined:
        yield NEVER


SCENARIOS = (
    Scenario(
        "lock-timeout",
        "the member's record locks expire before its acknowledgement arrives, and another member gets the records",
        lock_timeout,
        to_share_members,
    ),
)
