"""Scenarios of `ottla verify` with faults of a cluster's brokers: a leader dies, becomes a zombie, or loses its followers; a coordinator
moves.

Rules:
- The fault concerns the broker that has received a request of the program under test. The request is held there until the other brokers are
  in the state that the scenario needs.
- A dead broker is fenced at once.
- All brokers are restored before the logs are judged, so that all replicas are judged.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.verification.deployment import BROKERS
from ottla.broker.verification.scenario import Baseline, Scenario, always, to_writers
from ottla.broker.verification.stage import Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

HELD: Final = "in-hand"
NEXT: Final = "next"
REJECTIONS: Final = 3
"""The scenario lets the followers return to the ISR when the program under test has received this many NOT_ENOUGH_REPLICAS errors."""
CONTINUE_S: Final = 1.0
"""How many seconds the scenario waits, after an acknowledgement, for the program's next request."""
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}

WaitsForBroker = Generator[Wait, None, int]
Waits = Generator[Wait, None, None]


def killed_before_ack(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `leader-killed-before-ack`: kill the leader after all replicas have the program's records, but before the leader
    acknowledges them."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-response")
    stage.cluster.kill(leader)


def killed_after_ack(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `leader-killed-after-ack`: kill the leader when all acknowledged records are replicated. At that moment the leader
    has received the program's next request, but has not handled it."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-request")
    stage.cluster.kill(leader)


def killed_unreplicated(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `leader-killed-unreplicated`: kill the leader when it is the only replica with the program's last records. If the
    program uses acks=1, they are acknowledged before; with acks=all they are not."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-request")
    stage.cluster.stop_followers(leader)
    yield from _write_held_request(stage, baseline, leader, acknowledges=not baseline.observer.uses_acks_all)
    stage.cluster.kill(leader)


def zombie_leader(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `zombie-leader`: pause the leader until another broker has replaced it, then resume it. Until the old leader
    receives the new metadata, it accepts the program's requests."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-request")
    stage.cluster.replace(leader)
    yield from _write_held_request(stage, baseline, leader, acknowledges=not baseline.observer.uses_acks_all)
    stage.cluster.host.heal()
    stage.release(NEXT)


def not_enough_replicas(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `not-enough-replicas`: let the followers fall out of the ISR, so that the leader rejects writes with
    NOT_ENOUGH_REPLICAS (min.insync.replicas=2). After a few rejections, let the followers return."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-request")
    stage.cluster.shrink_isr_to(leader)
    stage.release(HELD)
    yield Wait(lambda: stage.observer.refusals[ErrorCode.NOT_ENOUGH_REPLICAS] >= REJECTIONS)
    stage.cluster.resume_followers()


def unclean_election(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `unclean-election`: let the followers fall out of the ISR, so that the leader acknowledges alone
    (min.insync.replicas=1); then kill it, so that a replica without these records is elected (unclean.leader.election.enable=true)."""
    leader = yield from _hold_one_exchange(stage, baseline, "hold-request")
    for topic in baseline.topics.intersection(stage.cluster.host.topic_names):
        stage.cluster.host.topics.configure(topic, UNCLEAN)
    stage.cluster.shrink_isr_to(leader)
    yield from _write_held_request(stage, baseline, leader, acknowledges=True)
    # The leader must write nothing more: a retry that is written after `examine` and before the kill would be lost, but is not in
    # `may_be_lost`.
    stage.cluster.brokers[leader - 1].faults.add("hold-request:api=Produce,name=no-more")
    stage.may_be_lost = stage.deployment.examine(baseline.topics, audit=False).stored
    stage.cluster.kill(leader)


def coordinator_moved(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `coordinator-moved`: move the coordinator to another broker after it has written the program's commit, and lose the
    response to the commit. The program gets no answer for `stage.limits.late_ms`, which should be longer than its request timeout."""
    api, topic = (ApiKey.END_TXN, TRANSACTION_STATE) if baseline.transactional else (ApiKey.OFFSET_COMMIT, CONSUMER_OFFSETS)
    after = baseline.part_way(api)
    if baseline.transactional:
        stage.fault(f"pause:step=prepared,after={after},times=1")
    stage.fault(f"hold-response:api={api.name},after={after},times=1,name={HELD}")
    stage.fault(f"drop-ack:api={api.name},after={after},times=1")
    stage.start()
    yield stage.held(HELD)
    (coordinator,) = stage.deployment.held(HELD)
    stage.cluster.host.move_leader(topic, 0, coordinator % BROKERS + 1)
    until = stage.now() + stage.limits.late_ms / 1_000
    yield Wait(lambda: stage.now() >= until, must_hold=True)
    stage.deployment.reset()


def _hold_one_exchange(stage: Stage, baseline: Baseline, action: str) -> WaitsForBroker:
    """Start the program under test and wait until a broker holds one of its requests or responses, as `action` says (`hold-request` or
    `hold-response`). Then wait until all replicas have all records, and return the broker's number."""
    stage.fault(f"{action}:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api)},times=1,name={HELD}")
    stage.start()
    yield stage.held(HELD)
    (broker,) = stage.deployment.held(HELD)
    for topic in stage.cluster.host.topic_names:
        stage.cluster.host.wait_in_sync(topic)
    return broker


def _write_held_request(stage: Stage, baseline: Baseline, broker: int, *, acknowledges: bool) -> Waits:
    """Release the request that the broker with this number holds, and wait until it is written. With `acknowledges`, wait also until the
    program has received the acknowledgement and sends its next request, which is held."""
    cluster, progress_api = stage.cluster, baseline.progress_api
    ends, answered, acked = cluster.ends_of(broker), stage.observer.calls[progress_api], cluster.acked_by(broker)
    if baseline.writes and acknowledges:
        stage.fault(f"hold-request:api=Produce,times=1,name={NEXT}")
    stage.release(HELD)
    if progress_api is not ApiKey.FETCH:
        cluster.host.wait_until(
            lambda: cluster.ends_of(broker) != ends or stage.observer.calls[progress_api] > answered, "the request is handled"
        )
    if baseline.writes and acknowledges:
        yield Wait(lambda: cluster.acked_by(broker) > acked)
        until = stage.now() + CONTINUE_S
        yield Wait(lambda: stage.held(NEXT).holds() or not stage.running() or stage.now() >= until, must_hold=True)


def _to_committers(baseline: Baseline) -> str | None:
    """Return None if the program under test commits transactions or offsets, otherwise the reason why the scenario does not apply to it."""
    return None if baseline.transactional or baseline.progress_api is ApiKey.OFFSET_COMMIT else "it commits nothing to a coordinator"


SCENARIOS = (
    Scenario(
        "leader-killed-before-ack",
        "the leader dies when all replicas have the records, before it acknowledges them",
        killed_before_ack,
        always,
        BROKERS,
    ),
    Scenario("leader-killed-after-ack", "the leader dies when all replicas have what it acknowledged", killed_after_ack, always, BROKERS),
    Scenario(
        "leader-killed-unreplicated",
        "the leader dies before any other replica has the records (with acks=1 they are acknowledged)",
        killed_unreplicated,
        to_writers,
        BROKERS,
    ),
    Scenario("zombie-leader", "the leader is paused, replaced, and accepts requests when it resumes", zombie_leader, always, BROKERS),
    Scenario(
        "coordinator-moved",
        "the coordinator moves to another broker in the middle of a commit, and its response is lost",
        coordinator_moved,
        _to_committers,
        BROKERS,
    ),
    Scenario(
        "not-enough-replicas",
        "too few replicas are in sync: writes are rejected for a while (NOT_ENOUGH_REPLICAS)",
        not_enough_replicas,
        to_writers,
        BROKERS,
    ),
    Scenario(
        "unclean-election",
        "a replica that lacks acknowledged records is elected, as the topic's settings allow",
        unclean_election,
        to_writers,
        BROKERS,
    ),
)
