"""Scenarios of `ottla verify` with faults of share group members: record locks that expire, a record that kills every member that gets it,
and a partition leader that moves while members work."""

from __future__ import annotations

from ottla.broker.verification.deployment import BROKERS
from ottla.broker.verification.input_data import LOCK_MS, PARTITIONS, configure_share_group
from ottla.broker.verification.scenario import CLOCK, Baseline, Scenario, to_share_members
from ottla.broker.verification.scenarios.groups import second_member
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

MARGIN_MS = 1_000
DELIVERIES = 2
"""The value of share.delivery.count.limit in the scenario `poison-record`: the lowest that a share group may have."""
TRIES = 4 * DELIVERIES
"""The number of members that the scenario kills at most before it gives up. It is more than DELIVERIES, because each member may acquire
other records than the member before."""


def lock_timeout(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `lock-timeout`: let a member's record locks (share.record.lock.duration.ms) expire before its acknowledgement
    arrives, so that a second member gets the records."""
    joined = yield from second_member(stage, baseline)
    stage.pass_time(LOCK_MS + MARGIN_MS)
    before = stage.observer.calls[baseline.progress_api]
    yield Wait(lambda: stage.observer.calls[baseline.progress_api] > before)
    stage.release("batch")
    if not joined:
        yield NEVER


def poison_record(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `poison-record`: kill each member before its acknowledgement arrives, as if one record crashed every program that
    handles it. Repeat this until the group has reached share.delivery.count.limit and archives the record. Then let a member process the
    other records without faults."""
    configure_share_group(stage.deployment.verifier_client, stage.program.group, {"share.delivery.count.limit": str(DELIVERIES)})
    for number in range(TRIES):
        if _given_up(stage):
            break
        after = baseline.part_way(baseline.progress_api, 0.3) if number == 0 else int(baseline.progress_api is ApiKey.SHARE_FETCH)
        stage.fault(f"hold-request:api={baseline.progress_api.name},after={after},times=1,name=failing-{number}")
        stage.start()
        yield stage.held(f"failing-{number}")
        for instance in stage.running():
            instance.kill()
        stage.pass_time(LOCK_MS + MARGIN_MS)
    stage.start()
    if not _given_up(stage):
        yield NEVER


def _given_up(stage: Stage) -> bool:
    """Return whether the share group archives some record, because it has delivered the record DELIVERIES times and no member has accepted
    it."""
    observer = stage.observer
    return any(count >= DELIVERIES and record not in observer.accepted for record, count in observer.deliveries.items())


def leader_moved(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `leader-moved`: move the input partitions to another leader while a share acknowledgement is on its way to the old
    leader, which then rejects it. The new leader loads the share state, and delivers again the records that no member has accepted."""
    stage.fault(f"hold-request:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api)},times=1,name=batch")
    stage.start()
    yield stage.held("batch")
    (leader,) = stage.deployment.held("batch")
    for partition in range(PARTITIONS):
        stage.cluster.host.move_leader(stage.program.input, partition, leader % BROKERS + 1)
    stage.release("batch")


SCENARIOS = (
    Scenario(
        "lock-timeout",
        "the member's record locks expire before its acknowledgement arrives, and another member gets the records",
        lock_timeout,
        to_share_members,
        needs=CLOCK,
    ),
    Scenario(
        "poison-record",
        "a record kills each worker before its acknowledgement, until the group has delivered it as often as it may",
        poison_record,
        to_share_members,
        needs=CLOCK,
    ),
    Scenario(
        "leader-moved",
        "the leader moves while an acknowledgement is on its way to the old one, which rejects it",
        leader_moved,
        to_share_members,
        BROKERS,
    ),
)
