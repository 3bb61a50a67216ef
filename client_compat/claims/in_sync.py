"""Claims (common statements) about the ISR, and about coordinators and clients that move to another broker. In docs/exactly-once.md: 31,
32, 33, 34, 38, 39."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.claims.replicas import (
    coordinator_of,
    followers_of,
    holders,
    leader_of,
    new_topic,
    three_brokers,
    values,
    wait_in_sync,
)
from client_compat.claims.wire import produce_raw
from client_compat.kafka.cluster import Cluster
from client_compat.matrix.truth import Truth, until
from client_compat.support.reading import committed, read_with_confluent, wait_until_stable
from client_compat.support.stage import QUICK, QUIET

END_S = 60.0
"""Time limit, in seconds, for a client's calls while a coordinator moves to another broker."""
MOVING = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE}
"""Errors that brokers return while a coordinator moves: no broker is the coordinator yet, or the new one is still loading."""


@claim(31, "acks=all means that every replica has the record", right=False)
def not_every_replica(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        leader = leader_of(cluster, topic)
        away, other = followers_of(cluster, leader)
        all_three = produce_raw(leader.process.port, topic, "to three")
        away.stop()
        in_sync = wait_in_sync(cluster, topic, leader, [leader, other])
        two = produce_raw(leader.process.port, topic, "to two")
        copies = {value: holders(cluster, topic, value) for value in ("to three", "to two")}
    held = not (all_three[0] == two[0] == "NONE" and copies == {"to three": [1, 2, 3], "to two": in_sync})
    evidence = [f"“{value}”, acknowledged: on the disks of brokers {found}" for value, found in copies.items()]
    return CheckResult(held, f"every replica in sync: with broker {away.node_id} stopped, that is two of three", evidence)


@claim(32, "acks=all alone puts a record onto more than one broker", right=False)
def one_is_all(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment, min_insync_replicas="1") as (cluster, topic):
        careful = new_topic(environment, min_insync_replicas="2")
        leaders = [leader_of(cluster, one) for one in (topic, careful)]
        alone = leaders[0]
        for broker in followers_of(cluster, alone):
            broker.stop()
        for one in (topic, careful):
            leader_of(cluster, one)
            wait_in_sync(cluster, one, alone, [alone])
        acknowledged, refused, leader_only = (
            produce_raw(alone.process.port, one, "alone", acks=acks) for one, acks in ((topic, -1), (careful, -1), (careful, 1))
        )
        copies = holders(cluster, topic, "alone")
    held = not (
        acknowledged[0] == "NONE" and copies == [alone.node_id] and refused[0] == "NOT_ENOUGH_REPLICAS" and leader_only[0] == "NONE"
    )
    evidence = [
        f"broker {alone.node_id} in sync alone, min.insync.replicas=1, acks=all: {acknowledged[0]}, on the disks of brokers {copies}",
        f"the same with min.insync.replicas=2, acks=all: {refused[0]}; acks=1: {leader_only[0]}",
    ]
    return CheckResult(held, "all in sync may be one; min.insync.replicas=2 refuses then, though not what acks=1 asks", evidence)


@claim(33, "A write needs a majority of the replicas, as in Raft", right=False)
def no_majority(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment, min_insync_replicas="1") as (cluster, one_is_enough):
        three_or_none = new_topic(environment, min_insync_replicas="3")
        away = cluster.broker(3)
        away.stop()
        leader = leader_of(cluster, three_or_none)
        wait_in_sync(cluster, three_or_none, leader, [cluster.broker(1), cluster.broker(2)])
        two = produce_raw(leader.process.port, three_or_none, "two of three")
        last = leader_of(cluster, one_is_enough)
        next(broker for broker in followers_of(cluster, last) if broker is not away).stop()
        wait_in_sync(cluster, one_is_enough, last, [last])
        one = produce_raw(last.process.port, one_is_enough, "one of three")
    evidence = [f"min.insync.replicas=3, two of three in sync: {two[0]}", f"min.insync.replicas=1, one of three in sync: {one[0]}"]
    held = not (two[0] == "NOT_ENOUGH_REPLICAS" and one[0] == "NONE")
    return CheckResult(held, "nobody counts a majority: the in-sync set decides, and min.insync.replicas", evidence)


@claim(34, "Consumers are given a record as soon as the leader has it", right=False)
def high_watermark(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        leader = leader_of(cluster, topic)
        produce_raw(leader.process.port, topic, "committed")
        for broker in followers_of(cluster, leader):
            broker.process.pause()
        acknowledged = produce_raw(leader.process.port, topic, "not yet", acks=1)
        on_disk, given = holders(cluster, topic, "not yet"), values(leader, topic)
        for broker in followers_of(cluster, leader):
            broker.process.resume()
        for _ in until("the record is committed"):
            if Truth(leader.process.port).end_offset(topic) == 2:
                break
        later = values(leader, topic)
    held = not (acknowledged == ("NONE", 1) and leader.node_id in on_disk and given == ["committed"] and later == ["committed", "not yet"])
    evidence = [
        f"followers stand still; the leader acknowledged {acknowledged} with acks=1; a consumer is given {given}",
        f"they go on: {later}",
    ]
    return CheckResult(
        held, "only what every replica in sync has, below the high watermark: what is read cannot be lost with its leader", evidence
    )


@claim(38, "A commit survives its coordinator")
def commit_survives(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment, 2) as (cluster, topic):
        name = environment.name("moved")
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **QUICK}
        producer = Producer(settings, logger=QUIET)
        producer.init_transactions(END_S)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"whole", partition=partition)
        producer.flush(END_S)
        coordinator = coordinator_of(cluster, name, transactional=True)
        before = read_with_confluent(cluster.bootstrap, topic, 2, "read_committed")
        coordinator.process.kill()
        producer.commit_transaction(END_S)
        wait_until_stable(cluster.bootstrap, topic, 2)
        seen = sorted((one.partition, one.value.decode()) for one in read_with_confluent(cluster.bootstrap, topic, 2, "read_committed"))
        coordinator.start()
        cluster.settle()
        after = coordinator_of(cluster, name, transactional=True)
    evidence = [
        f"broker {coordinator.node_id} coordinates, and is killed before the commit; read_committed was given {len(before)} records",
        f"confluent-kafka's commit succeeded; read_committed: {seen}; broker {after.node_id} coordinates now",
    ]
    held = before == [] and seen == [(0, "whole"), (1, "whole")]
    return CheckResult(held, "the next leader of its partition of __transaction_state has the transaction, and ends it", evidence)


@claim(39, "A consumer group goes on where it committed when its coordinator dies")
def group_survives(environment: ClaimEnvironment) -> CheckResult:
    with three_brokers(environment) as (cluster, topic):
        for value in ("a", "b", "c"):
            produce_raw(leader_of(cluster, topic).process.port, topic, value)
        group = environment.name("group")
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False}, logger=QUIET)
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        consumer.close()
        coordinator = coordinator_of(cluster, group)
        coordinator.process.kill()
        found = _committed_elsewhere(cluster, group, topic)
    evidence = [f"broker {coordinator.node_id} coordinated, and was killed; the offset that the group has at another broker: {found}"]
    return CheckResult(found == 2, "its offsets are records of __consumer_offsets, which has replicas as well", evidence)


def _committed_elsewhere(cluster: Cluster, group: str, topic: str) -> int:
    """Return the group's committed offset after its coordinator was killed. Retries until another broker has become the coordinator,
    because librdkafka passes on the brokers' errors until then."""
    for _ in until(f"another broker coordinates {group}"):
        try:
            return committed(cluster.bootstrap, group, topic, 1)[0]
        except KafkaException as error:
            if error.args[0].code() not in MOVING:
                raise
    raise AssertionError("until raises")
