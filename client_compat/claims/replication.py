"""Claims (common statements) about leaders that die, tried with three brokers and a controller as processes. In docs/exactly-once.md: 12,
29, 30, 35, 36, 37."""

from __future__ import annotations

from pathlib import Path

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.claims.replicas import (
    FOLLOWERS_TIMEOUT_MS,
    followers_of,
    holders,
    leader_of,
    log,
    partition_of,
    pause_process,
    three_brokers,
    values,
)
from client_compat.claims.wire import Identity, new_producer_id, produce_raw
from client_compat.cluster_mixed.replicas import high_watermarks
from client_compat.matrix.truth import until
from ottla.spark_jobs.audit import audit

NOBODY = -1


@claim(12, "Deduplication survives a change of leader, because id and sequence are in the log")
def change_of_leader(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        old = leader_of(cluster, topic)
        producer = new_producer_id(old.process.port)
        acknowledged = [
            produce_raw(old.process.port, topic, value, Identity(producer, 0, sequence)) for sequence, value in enumerate("abc")
        ]
        old.process.kill()
        new = leader_of(cluster, topic, but=old)
        again = [produce_raw(new.process.port, topic, value, Identity(producer, 0, sequence)) for sequence, value in enumerate("abc")]
        on = produce_raw(new.process.port, topic, "d", Identity(producer, 0, 3))
        stored, evidence = values(new, topic), log(new, topic)
    held = acknowledged == again == [("NONE", offset) for offset in range(3)] and on == ("NONE", 3) and stored == list("abcd")
    evidence.insert(
        0, f"broker {old.node_id} said {acknowledged} and was killed; broker {new.node_id} says to the retries {again}, then {on}"
    )
    return CheckResult(held, "every retry to the new leader is answered with its original offset, and nothing is stored again", evidence)


@claim(29, "acks=1 loses what acks=all does not: a record that only the leader has dies with it")
def acknowledged_alone(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        old = leader_of(cluster, topic)
        port = old.process.port
        safe = produce_raw(port, topic, "all, to all")
        followers = followers_of(cluster, old)
        pause_process(followers, old, topic)
        alone = produce_raw(port, topic, "1, to the leader alone", acks=1)
        unheard = produce_raw(port, topic, "all, to the leader alone", timeout_ms=FOLLOWERS_TIMEOUT_MS)
        old.process.kill()
        for broker in followers:
            broker.process.resume()
        new = leader_of(cluster, topic, but=old)
        stored, evidence = values(new, topic), log(new, topic)
    lost = alone[0] == "NONE" and "1, to the leader alone" not in stored
    kept = safe[0] == "NONE" and stored[:1] == ["all, to all"] and unheard[0] == "REQUEST_TIMED_OUT"
    settings_and_outcomes = f"acks=all, followers there: {safe}; acks=1, they stand still: {alone}; acks=all, they stand still: {unheard}"
    happened = "acks=1 was told an offset and is gone; acks=all is told one only when the in-sync replicas have it, and that stays"
    return CheckResult(lost and kept, happened, [settings_and_outcomes, *evidence])


@claim(30, "Unclean leader election loses even what acks=all acknowledged")
def unclean(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment, unclean_leader_election_enable="true") as (cluster, topic):
        old = leader_of(cluster, topic)
        behind, other = followers_of(cluster, old)
        behind.stop()
        acknowledged = [produce_raw(old.process.port, topic, value) for value in ("order 1", "order 2", "order 3")]
        _wait_for_high_watermark([old.directory, other.directory], topic, 3)
        for broker in (old, other):
            broker.process.kill()
        behind.start()
        new = leader_of(cluster, topic)
        other.start()
        for _ in until("a second replica is in sync"):
            after = produce_raw(new.process.port, topic, "order 4")
            if after[0] == "NONE":
                break
        _wait_for_high_watermark([behind.directory, other.directory], topic, 1)
        stored, evidence = values(new, topic), log(new, topic)
        verdict = audit([broker.directory for broker in cluster.brokers], topics=[topic], replicas=True, engine="duckdb")
        samples = [sample for judged in verdict.directories for sample in judged.rules["replicas"].samples]
    lost = [error for error, _ in acknowledged] == ["NONE"] * 3 and stored == ["order 4"] and after == ("NONE", 0)
    findings = [f"audit: {one.kind} at {one.where}, {one.evidence['equal_copies']} of {one.evidence['copies']} have it" for one in samples]
    happened = "a replica that was behind was made leader: what two others had acknowledged is gone, and the audit says from where on"
    first = (
        f"brokers {old.node_id} and {other.node_id} said {acknowledged}; broker {new.node_id}, which had none of it, leads and says {after}"
    )
    return CheckResult(lost and any(one.offset == 0 for one in samples), happened, [first, *evidence, *findings])


@claim(35, "When no replica in sync is left, another one leads, so that the partition stays available", right=False)
def nobody_in_sync(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment, min_insync_replicas="1") as (cluster, topic):
        last = leader_of(cluster, topic)
        others = followers_of(cluster, last)
        for broker in others:
            broker.stop()
        acknowledged = produce_raw(last.process.port, topic, "only one has it")
        held_by = holders(cluster, topic, "only one has it")
        last.process.kill()
        for broker in others:
            broker.start()
        for _ in until("the others are there, and do not lead"):
            seen = [partition_of(cluster, topic, broker) for broker in others]
            brokers = [len(cluster.seen_by(broker).brokers) for broker in others]
            if brokers == [2, 2] and all(one is not None and one.leader_id == NOBODY for one in seen):
                break
        refused = produce_raw(others[0].process.port, topic, "to who does not lead")
        last.start()
        stored, evidence = values(leader_of(cluster, topic), topic), log(leader_of(cluster, topic), topic)
    kept = acknowledged == ("NONE", 0) and held_by == [last.node_id] and stored[:1] == ["only one has it"]
    stood_still = refused[0] in {"NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"}
    happened = "the partition stood still until the last one in sync was back, and nothing was lost (unclean.leader.election.enable=false)"
    first = (
        f"broker {last.node_id}, in sync alone, said {acknowledged} and was killed; nobody leads, a write is told {refused[0]}; it is back"
    )
    return CheckResult(not (kept and stood_still), happened, [first, *evidence])


@claim(36, "Idempotence keeps records from being lost, too", right=False)
def notices_a_loss(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        old = leader_of(cluster, topic)
        port, producer = old.process.port, new_producer_id(old.process.port)
        produce_raw(port, topic, "a", Identity(producer, 0, 0))
        followers = followers_of(cluster, old)
        pause_process(followers, old, topic)
        acknowledged = produce_raw(port, topic, "b", Identity(producer, 0, 1), acks=1)
        old.process.kill()
        for broker in followers:
            broker.process.resume()
        new = leader_of(cluster, topic, but=old)
        following = produce_raw(new.process.port, topic, "c", Identity(producer, 0, 2))
        stored, evidence = values(new, topic), log(new, topic)
    lost = acknowledged == ("NONE", 1) and "b" not in stored
    noticed = following[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER" and "c" not in stored
    happened = "acknowledged with acks=1 and lost; but noticed: to the new leader the next sequence is a gap, and it refuses"
    first = (
        f"broker {old.node_id} said {acknowledged} to sequence 1 and was killed; broker {new.node_id} says to sequence 2: {following[0]}"
    )
    return CheckResult(not (lost and noticed), happened, [first, *evidence])


@claim(37, "A leader that comes back after another was elected can acknowledge nothing with acks=all")
def zombie(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        old = leader_of(cluster, topic)
        before = produce_raw(old.process.port, topic, "before")
        old.process.pause()
        new = leader_of(cluster, topic, but=old)
        for _ in until("the new leader has another in sync"):
            meanwhile = produce_raw(new.process.port, topic, "meanwhile")
            if meanwhile[0] == "NONE":
                break
        old.process.resume()
        late = produce_raw(old.process.port, topic, "of the zombie", timeout_ms=FOLLOWERS_TIMEOUT_MS)
        cluster.settle()
        leader = leader_of(cluster, topic)
        held_by, stored, evidence = holders(cluster, topic, "of the zombie"), values(leader, topic), log(leader, topic)
    held = before == ("NONE", 0) and late[0] != "NONE" and "of the zombie" not in stored and not held_by
    first = (
        f"broker {old.node_id} stood still, broker {new.node_id} led and said {meanwhile}; broker {old.node_id} is awake and says {late[0]}"
    )
    return CheckResult(held, "it is no leader any more, or waits in vain for followers; what it wrote is cut off", [first, *evidence])


def _wait_for_high_watermark(directories: list[Path], topic: str, offset: int) -> None:
    """Wait until the checkpoint file in each of the directories has exactly `offset` as the high watermark of partition 0. The audit
    compares a killed broker's replica up to this value. Shortly after a restart, the file may still have an old value that is too high or
    too low."""
    for _ in until(f"the high watermark {offset} of {topic} is on disk"):
        if all(high_watermarks(directory).get(f"{topic}-0") == offset for directory in directories):
            return
