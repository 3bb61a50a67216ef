"""Scenarios of `ottla verify` with faults of transactions: a late EndTxn, a timeout, a coordinator that crashes between two steps, producer
epochs that run out."""

from __future__ import annotations

from ottla.broker.verification.scenario import CLOCK, Baseline, Scenario, to_transactional, to_transactions_in_a_row
from ottla.broker.verification.stage import Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey

LATE = "late-end"
ABORT_INTERVAL_MS = 15_000
"""By this time in ms the clock is advanced beyond a transaction's timeout. It is longer than
transaction.abort.timed.out.transaction.cleanup.interval.ms (10 s), so that the coordinator has aborted the transaction."""
EPOCH_BUMPING_END = 5
"""The first version of EndTxn in which each transaction has its own epoch (KIP-890)."""


def delayed_end(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `delayed-end-txn`: close the connection on which an EndTxn request arrived, and let the broker handle the request
    only after the producer has begun its next transaction."""
    stage.fault(f"late-request:api=EndTxn,after={baseline.part_way(ApiKey.END_TXN)},times=1,name={LATE}")
    stage.start()
    yield stage.held(LATE)
    stage.fault("hold-response:api=Produce,times=1,name=next")
    yield stage.held("next")
    stage.release(LATE)
    yield Wait(lambda: any(LATE in end.faults for end in stage.observer.ends), must_hold=True)
    stage.release("next")


def timeout(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `transaction-timeout`: hold the response to a Produce request until the transaction timeout has passed and the
    coordinator has aborted the transaction."""
    stage.fault(f"hold-response:api=Produce,after={baseline.part_way(ApiKey.PRODUCE)},times=1,name=still")
    stage.start()
    yield stage.held("still")
    stage.pass_time(baseline.observer.transaction_timeout_ms + ABORT_INTERVAL_MS)
    stage.release("still")


def coordinator_failover(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `coordinator-failover`: crash the broker after the transaction coordinator has written its decision to commit or
    abort, but before it writes any marker; then restart the broker."""
    rule = stage.fault(f"crash:step=prepared,after={baseline.part_way(ApiKey.END_TXN)},times=1")
    stage.start()
    yield stage.hit(rule)


def epoch_exhaustion(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `epoch-exhaustion`: use up nearly all producer epochs of the program's transactional ids before the program starts,
    so that the coordinator has to assign a new producer id during the run."""
    left = len(baseline.observer.ends) // 2 if baseline.observer.end_version >= EPOCH_BUMPING_END else 0
    exhausted = {each: stage.exhaust_epoch(each, left) for each in sorted(baseline.observer.transactional_ids)}
    stage.start()
    yield Wait(lambda: any(stage.observer.producer_ids[name] - {producer_id} for name, producer_id in exhausted.items()))


SCENARIOS = (
    Scenario("delayed-end-txn", "an EndTxn arrives when the next transaction has begun", delayed_end, to_transactions_in_a_row),
    Scenario(
        "transaction-timeout", "the coordinator aborts the open transaction after its timeout", timeout, to_transactional, needs=CLOCK
    ),
    Scenario(
        "coordinator-failover",
        "the broker crashes after deciding a transaction and before writing its markers",
        coordinator_failover,
        to_transactional,
        needs="the broker has to crash between two steps of its transaction coordinator",
    ),
    Scenario(
        "epoch-exhaustion",
        "the epochs of the producer id run out",
        epoch_exhaustion,
        to_transactional,
        needs="it would ask the cluster's coordinator for 32,767 epochs",
    ),
)
