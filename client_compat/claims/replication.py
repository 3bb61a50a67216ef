"""What more than one broker is for: leaders that die (claims 12, 29, 30). Three brokers under a controller of Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.wire import Identity, new_producer_id, put
from client_compat.claims.world import World
from client_compat.cluster_mixed.replicas import high_watermarks
from client_compat.kafka.cluster import Cluster, Node
from client_compat.matrix.truth import Truth, until
from client_compat.support.log_text import describe
from ottla.spark_jobs.audit import audit

FOLLOWERS_TIMEOUT_MS = 300
"""Much shorter than a broker's session: nobody leaves the in-sync set meanwhile."""


@contextmanager
def three_brokers(world: World, **config: str) -> Iterator[tuple[Cluster, str]]:
    """The cluster and a new topic of three replicas and one partition; dots of a setting's name are written as `_`. Afterwards every
    broker runs again."""
    cluster, topic = world.cluster(), world.name("replicated")
    cluster.create_topic(topic, 1, {name.replace("_", "."): value for name, value in config.items()})
    try:
        yield cluster, topic
    finally:
        for broker in cluster.brokers:
            if broker.process.alive:
                broker.process.resume()
            else:
                broker.start()
        cluster.settle()


def leader_of(cluster: Cluster, topic: str, *, but: Node | None = None) -> Node:
    """Who leads partition 0, as soon as that is somebody who runs, other than `but`, and says where the log ends."""
    asked = next(broker for broker in cluster.brokers if broker.process.alive)
    for _ in until(f"{topic} has a new leader"):
        (found,) = [one for one in cluster.seen_by(asked).topics if one.name == topic]
        if found.partitions and found.partitions[0].leader_id >= 0:
            leader = cluster.broker(found.partitions[0].leader_id)
            if leader is not but and leader.process.alive:
                Truth(leader.process.port).wait_until_led(topic)
                return leader
    raise AssertionError("until raises")


def log(leader: Node, topic: str) -> list[str]:
    return [f"broker {leader.node_id}: {describe(batch)}" for batch in Truth(leader.process.port).batches(topic)]


def values(leader: Node, topic: str) -> list[str]:
    return [(value or b"").decode() for value in Truth(leader.process.port).values(topic)]


@claim(12, "Deduplication survives a change of leader, because id and sequence are in the log")
def change_of_leader(world: World) -> CheckResult:
    with three_brokers(world) as (cluster, topic):
        old = leader_of(cluster, topic)
        producer = new_producer_id(old.process.port)
        told = [put(old.process.port, topic, value, Identity(producer, 0, sequence)) for sequence, value in enumerate("abc")]
        old.process.kill()
        new = leader_of(cluster, topic, but=old)
        again = [put(new.process.port, topic, value, Identity(producer, 0, sequence)) for sequence, value in enumerate("abc")]
        on = put(new.process.port, topic, "d", Identity(producer, 0, 3))
        stored, evidence = values(new, topic), log(new, topic)
    held = told == again == [("NONE", offset) for offset in range(3)] and on == ("NONE", 3) and stored == list("abcd")
    evidence.insert(0, f"broker {old.node_id} said {told} and was killed; broker {new.node_id} says to the retries {again}, then {on}")
    return CheckResult(held, "every retry to the new leader is answered with its original offset, and nothing is stored again", evidence)


@claim(29, "acks=1 loses what acks=all does not: a record that only the leader has dies with it")
def acknowledged_alone(world: World) -> CheckResult:
    with three_brokers(world) as (cluster, topic):
        old = leader_of(cluster, topic)
        port = old.process.port
        safe = put(port, topic, "all, to all")
        followers = [broker for broker in cluster.brokers if broker is not old]
        for broker in followers:
            broker.process.pause()
        put(port, topic, "for the fetch that waits", acks=1)
        alone = put(port, topic, "1, to the leader alone", acks=1)
        unheard = put(port, topic, "all, to the leader alone", timeout_ms=FOLLOWERS_TIMEOUT_MS)
        old.process.kill()
        for broker in followers:
            broker.process.resume()
        new = leader_of(cluster, topic, but=old)
        stored, evidence = values(new, topic), log(new, topic)
    lost = alone[0] == "NONE" and "1, to the leader alone" not in stored
    kept = safe[0] == "NONE" and stored[:1] == ["all, to all"] and unheard[0] == "REQUEST_TIMED_OUT"
    told = f"acks=all, followers there: {safe}; acks=1, they stand still: {alone}; acks=all, they stand still: {unheard}"
    happened = "acks=1 was told an offset and is gone; acks=all is told one only when the in-sync replicas have it, and that stays"
    return CheckResult(lost and kept, happened, [told, *evidence])


@claim(30, "Unclean leader election loses even what acks=all acknowledged")
def unclean(world: World) -> CheckResult:
    with three_brokers(world, unclean_leader_election_enable="true") as (cluster, topic):
        old = leader_of(cluster, topic)
        behind, other = [broker for broker in cluster.brokers if broker is not old]
        behind.stop()
        told = [put(old.process.port, topic, value) for value in ("order 1", "order 2", "order 3")]
        _wait_for_high_watermark([old.directory, other.directory], topic, 3)
        for broker in (old, other):
            broker.process.kill()
        behind.start()
        new = leader_of(cluster, topic)
        other.start()
        for _ in until("a second replica is in sync"):
            after = put(new.process.port, topic, "order 4")
            if after[0] == "NONE":
                break
        _wait_for_high_watermark([behind.directory, other.directory], topic, 1)
        stored, evidence = values(new, topic), log(new, topic)
        verdict = audit([broker.directory for broker in cluster.brokers], topics=[topic], replicas=True, engine="duckdb")
        samples = [sample for judged in verdict.directories for sample in judged.rules["replicas"].samples]
    lost = [error for error, _ in told] == ["NONE"] * 3 and stored == ["order 4"] and after == ("NONE", 0)
    said = [f"audit: {one.kind} at {one.where}, {one.evidence['equal_copies']} of {one.evidence['copies']} have it" for one in samples]
    happened = "a replica that was behind was made leader: what two others had acknowledged is gone, and the audit says from where on"
    first = f"brokers {old.node_id} and {other.node_id} said {told}; broker {new.node_id}, which had none of it, leads and says {after}"
    return CheckResult(lost and any(one.offset == 0 for one in samples), happened, [first, *evidence, *said])


def _wait_for_high_watermark(directories: list[Path], topic: str, offset: int) -> None:
    """Until it is on disk: what a killed broker leaves there is how far the audit compares."""
    for _ in until(f"the high watermark of {topic} is on disk"):
        if all(high_watermarks(directory).get(f"{topic}-0", 0) >= offset for directory in directories):
            return
