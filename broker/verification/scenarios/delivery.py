"""Scenarios of `ottla verify` with faults of single requests: lost or late responses, duplicates, rejections, lost producer state."""

from __future__ import annotations

from ottla.broker.verification.scenario import Baseline, Scenario, always, to_idempotent, to_writers
from ottla.broker.verification.stage import Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

QUIET_S = 0.3
"""If no Produce request arrives for this many seconds, the producer is assumed to have as many requests in flight as it ever will."""


def lost_ack(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `lost-ack`: let the broker handle several requests of the program under test, but close the connection instead of
    sending the response. A commit of a transaction and a commit of its offsets are among these requests, if the program sends any."""
    rules = [
        stage.fault(f"drop-ack:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api)},times=3,share=0.7,seed=1")
    ]
    for api in (ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT):
        if baseline.observer.calls[api]:
            rules.append(stage.fault(f"drop-ack:api={api.name},after={baseline.part_way(api)},times=1"))
    stage.start()
    yield stage.hit(*rules)


def late_ack(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `late-ack`: delay the response to one request of the program under test by `stage.limits.late_ms`, which should be
    longer than the program's request timeout."""
    rule = stage.fault(
        f"delay:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api)},times=1,ms={stage.limits.late_ms}"
    )
    stage.start()
    yield stage.hit(rule)


def duplicate_delivery(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `duplicate-delivery`: let the broker handle a few requests of the program under test twice, as if the network had
    repeated them."""
    rule = stage.fault(f"duplicate:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api, 0.3)},times=3")
    stage.start()
    yield stage.hit(rule)


def window_overflow(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `window-overflow`: let the broker append all batches that the producer has in flight, and lose all their
    acknowledgements at once."""
    after = baseline.part_way(ApiKey.PRODUCE, 0.3)
    stage.fault(f"hold-response:api=Produce,after={after},times=1,name=first")
    stage.fault(f"drop-ack:api=Produce,after={after},times=1")
    stage.start()
    yield stage.held("first")
    yield _quiet(stage)
    stage.release("first")


def leader_unavailable(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `leader-unavailable`: reject some of the program's requests with NOT_LEADER_OR_FOLLOWER, and accept requests
    between and after the rejected ones."""
    api = ApiKey.PRODUCE if baseline.writes else ApiKey.FETCH
    after = max(min(2, baseline.part_way(api)), baseline.part_way(api, 0.3))
    rule = stage.fault(f"error:api={api.name},code=NOT_LEADER_OR_FOLLOWER,after={after},times=8,share=0.7,seed=3")
    stage.start()
    yield stage.hit(rule)


def producer_state_lost(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `producer-state-lost`: delete the producer state (the last sequences) that a partition has for the program's
    producers, as the broker does after producer.id.expiration.ms."""
    rule = stage.fault(f"expire-producer:api=Produce,after={baseline.part_way(ApiKey.PRODUCE)},times=2")
    stage.start()
    yield stage.hit(rule)


def _quiet(stage: Stage) -> Wait:
    """Return a condition for the script to wait for: no Produce request has arrived for QUIET_S seconds."""
    seen, since = -1, 0.0

    def holds() -> bool:
        nonlocal seen, since
        count, now = stage.observer.calls[ApiKey.PRODUCE], stage.now()
        if count != seen:
            seen, since = count, now
        return now - since >= QUIET_S

    return Wait(holds, must_hold=True)


SCENARIOS = (
    Scenario("lost-ack", "acknowledgements are lost with their connections after the broker has written", lost_ack, always),
    Scenario("late-ack", "an acknowledgement arrives seconds late", late_ack, always),
    Scenario("duplicate-delivery", "requests reach the broker twice", duplicate_delivery, always),
    Scenario(
        "window-overflow", "everything in flight is written and all its acknowledgements are lost together", window_overflow, to_writers
    ),
    Scenario(
        "leader-unavailable", "the leader rejects requests and accepts later ones (NOT_LEADER_OR_FOLLOWER)", leader_unavailable, always
    ),
    Scenario(
        "producer-state-lost",
        "the broker forgets the producer's sequences",
        producer_state_lost,
        to_idempotent,
        needs="only the broker itself can forget a producer",
    ),
)
