"""Meaningful random sequences of orders for a controller: brokers register, send heartbeats, stop and return; topics are created and moved.

A seed gives a `Plan`: the controller's initial configuration, and steps. A step is a kind and its own seed; its orders are derived from
that seed and from what Kafka's controller has decided so far (`Known`). So a step is still meaningful if earlier ones are left out, and a
long failing sequence can be reduced to a short one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple, TypeAlias

from ottla.broker.cluster.image import BrokerRegistration, PartitionRegistration, TopicImage
from ottla.protocol.messages import k62_broker_registration as k62
from ottla.protocol.messages import k63_broker_heartbeat as k63
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.registration import Feature, Listener
from tests.support.kafka_controller import CLUSTER_ID, SESSION_MS, Advance, Known, Order, Request, Start, Task

BROKERS = range(1, 7)
METADATA_LEVELS = (7, 8, 10, 12, 13, 15, 17, 19, 21, 22, 23, 24, 25, 26, 29, 30, 32, 33)
FEATURES = {
    "metadata.version": (7, 33),
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The features that a broker of Kafka 4.4 supports, with their lowest and highest level."""
RACKS = (None, "a", "b", "b", "c")


class Step(NamedTuple):
    """A step of a plan: its kind, one of `KINDS`, and the seed of its random numbers."""

    kind: str
    seed: int


class Plan(NamedTuple):
    """A sequence of steps, the controller's start, and the seed from which they were generated."""

    seed: int
    start: Start
    steps: tuple[Step, ...]


Making: TypeAlias = Callable[[Known, Random], Iterator[Order]]


def often(random: Random, percent: int = 85) -> bool:
    """Return True with a probability of `percent` percent."""
    return random.randrange(100) < percent


def some(random: Random, items: list[int], most: int = 99) -> list[int]:
    """Return at least one and at most `most` of the items in random order; an empty list if there are no items."""
    return random.sample(items, random.randint(1, min(most, len(items)))) if items else []


def topics(known: Known) -> list[TopicImage]:
    """Return the existing topics by name. (Their ids differ in each run, because Kafka chooses them.)"""
    return sorted(known.image.topics.values(), key=lambda topic: topic.name)


def a_topic(known: Known, random: Random) -> TopicImage | None:
    """Return a random existing topic, None if there is no topic."""
    found = topics(known)
    return random.choice(found) if found else None


def a_partition(known: Known, random: Random) -> tuple[TopicImage, int, PartitionRegistration] | None:
    """Return a random existing partition, as its topic, its index and its registration; None if there is no topic."""
    topic = a_topic(known, random)
    if topic is None:
        return None
    index = random.choice(sorted(topic.partitions))
    return topic, index, topic.partitions[index]


def live(known: Known) -> list[BrokerRegistration]:
    """Return the brokers that are not fenced."""
    return [broker for _, broker in sorted(known.image.brokers.items()) if not broker.fenced]


def epoch_of(known: Known, random: Random, broker_id: int) -> int:
    """Return the broker's epoch, or sometimes a wrong one."""
    broker = known.image.brokers.get(broker_id)
    if broker is None or not often(random, 96):
        return random.choice([-1, 0, known.end_offset])
    return broker.epoch


def directory(broker_id: int, number: int) -> bytes:
    """Return the id of a broker's log directory `number`."""
    return bytes([1, broker_id, number]) + bytes(12) + b"\x01"


# --- brokers ---------------------------------------------------------------------------------------------------------------------------


def register(known: Known, random: Random) -> Iterator[Order]:
    """Register a broker, or register it again."""
    yield registration(known, random, random.choice(BROKERS))


def registration(known: Known, random: Random, broker_id: int) -> Request:
    """Make a BrokerRegistration request with random choices: the current incarnation id (a repeated registration) or a new one; the
    previous broker epoch (after a clean shutdown) or -1; version 4 or an older version."""
    before = known.image.brokers.get(broker_id)
    incarnation = before.incarnation_id if before is not None and not often(random, 70) else random.randbytes(16)
    rack = before.rack if before is not None and often(random, 80) else random.choice(RACKS)
    names = ["PLAINTEXT", "REPLICATION"][: random.choice((1, 1, 2))]
    request = k62.BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID if often(random, 97) else "another-cluster",
        incarnation_id=incarnation,
        listeners=[Listener(name, f"host{broker_id}", 9092 + at, 0) for at, name in enumerate(names)],
        features=features_of(known, random),
        rack=rack,
        is_migrating_zk_broker=not often(random, 98),
        log_dirs=directories_of(broker_id, random),
        previous_broker_epoch=before.epoch if before is not None and often(random, 50) else -1,
    )
    return Request(request, 4 if often(random, 80) else random.randrange(4))


def features_of(known: Known, random: Random) -> list[Feature]:
    """Return the features that a broker claims to support."""
    ranges = dict(FEATURES)
    if not often(random, 93):
        name = random.choice(sorted(ranges))
        if often(random, 50):
            ranges[name] = (ranges[name][0], random.randint(*ranges[name]))
        else:
            del ranges[name]
    if not often(random, 97):
        ranges["metadata.version"] = random.choice([(1, 6), (7, known.image.metadata_level), (8, 7), (31, 32)])
    return [Feature(name, *ranges[name]) for name in sorted(ranges)]


def directories_of(broker_id: int, random: Random) -> list[bytes]:
    """Return a broker's two directories; sometimes one is missing, a third is there, or they are invalid."""
    both = [directory(broker_id, 1), directory(broker_id, 2)]
    if often(random, 85):
        return both
    odd = (both[:1], [*both, directory(broker_id, 3)], [both[0], both[0]], [bytes(16)], [], [directory(broker_id % 6 + 1, 1), both[1]])
    return random.choice(odd)


def move(known: Known, milliseconds: int, *, fence: bool = True) -> Iterator[Order]:
    """Advance the clock, and fence each broker as soon as its session expires. Without `fence`, a broker whose session expires at the very
    end is not fenced.

    Only one broker is fenced at a time, because the order in which Kafka fences several depends on its hash table.
    """
    until = known.now_ms + milliseconds
    while known.now_ms < until:
        while known.silent():
            yield Task("fence")
        next_ms = min(known.contacts.values(), default=until) + SESSION_MS + 1
        yield Advance(min(until, next_ms) - known.now_ms)
    while fence and known.silent():
        yield Task("fence")


def beat(known: Known, random: Random) -> Iterator[Order]:
    """Send a heartbeat of a random broker and a random kind."""
    yield from move(known, 1)
    yield heartbeat(known, random, random.choice(sorted(known.image.brokers) or list(BROKERS)))


def heartbeat(known: Known, random: Random, broker_id: int, *, plain: bool = False) -> Request:
    """Make a BrokerHeartbeat request. A `plain` one only reports that the broker is alive and has read all metadata; any other has random
    fields."""
    request = k63.BrokerHeartbeatRequest(broker_id=broker_id, current_metadata_offset=known.end_offset - 1)
    broker = known.image.brokers.get(broker_id)
    if plain and broker is not None:
        request.broker_epoch = broker.epoch
        return Request(request, 1)
    request.broker_epoch = epoch_of(known, random, broker_id)
    if not often(random, 75):
        request.current_metadata_offset = random.choice([0, max(0, request.broker_epoch), request.broker_epoch - 1, known.end_offset])
    request.want_fence = not often(random, 92)
    request.want_shut_down = not often(random, 85)
    if not often(random, 80):
        request.offline_log_dirs = random.sample([directory(broker_id, number) for number in (1, 2, 3)], random.choice((1, 1, 2)))
    if known.image.metadata_level >= 30 and not often(random, 75):
        request.cordoned_log_dirs = random.sample([directory(broker_id, number) for number in (1, 2, 3)], random.randrange(3))
    return Request(request, 2 if often(random, 80) else random.randrange(3))


def beat_all(known: Known, random: Random) -> Iterator[Order]:
    """Send heartbeats of all brokers, or of all but one, that have read all metadata."""
    silent = random.choice(BROKERS) if often(random, 50) else None
    for broker_id in sorted(known.image.brokers):
        if broker_id != silent:
            yield from beat_of(known, random, broker_id)


def beat_of(known: Known, random: Random, broker_id: int) -> Iterator[Order]:
    """Advance the clock by 1 ms, so that no two brokers send heartbeats at the same time, and send a heartbeat of the broker."""
    yield from move(known, 1)
    yield heartbeat(known, random, broker_id, plain=True)


def pass_time(known: Known, random: Random) -> Iterator[Order]:
    """Advance the clock by seconds, during which most brokers send heartbeats; the others are fenced."""
    silent = {broker_id for broker_id in known.image.brokers if not often(random, 80)}
    for _ in range(random.choice((1, 2, 4))):
        yield from move(known, random.choice((2_000, 3_000, SESSION_MS, SESSION_MS - 20, 1)), fence=often(random, 70))
        for broker_id in sorted(set(known.image.brokers) - silent):
            yield from beat_of(known, random, broker_id)
    yield Task("fence")


def expire_sessions(known: Known, random: Random) -> Iterator[Order]:
    """Advance the clock without heartbeats until all brokers are fenced, or almost."""
    yield from move(known, random.choice((SESSION_MS - 3, SESSION_MS, SESSION_MS + 3)), fence=often(random, 70))


def shut_down(known: Known, random: Random) -> Iterator[Order]:
    """Perform a controlled shutdown: a broker repeats heartbeats that request it, while the other brokers send theirs."""
    brokers = live(known)
    if not brokers:
        return
    leaving = random.choice(brokers).broker_id
    for _ in range(random.randint(1, 4)):
        yield from move(known, 1)
        yield Request(leave(known, leaving), 1)
        if often(random, 60):
            yield from beat_all(known, random)


def leave(known: Known, broker_id: int) -> k63.BrokerHeartbeatRequest:
    """Make a heartbeat that requests a controlled shutdown."""
    return k63.BrokerHeartbeatRequest(broker_id, known.image.brokers[broker_id].epoch, known.end_offset - 1, False, True)


def restore_brokers(known: Known, random: Random) -> Iterator[Order]:
    """Register and unfence every broker that is fenced or not registered."""
    for broker_id in BROKERS:
        broker = known.image.brokers.get(broker_id)
        if broker is None or (broker.in_controlled_shutdown and broker.fenced):
            yield registration(known, random, broker_id)
        yield from beat_of(known, random, broker_id)


def unregister(known: Known, random: Random) -> Iterator[Order]:
    """Unregister a broker."""
    yield Request(UnregisterBrokerRequest(random.choice([*BROKERS, 77])), 0)


def producer_ids(known: Known, random: Random) -> Iterator[Order]:
    """Allocate producer ids for a broker."""
    broker_id = random.choice([*BROKERS, 77])
    yield Request(AllocateProducerIdsRequest(broker_id, epoch_of(known, random, broker_id)), 0)


def rebalance(known: Known, random: Random) -> Iterator[Order]:
    """Run the timer of preferred elections."""
    yield Task("elect-preferred")


def elect_uncleanly(known: Known, random: Random) -> Iterator[Order]:
    """Run the timer of unclean elections."""
    yield Task("elect-unclean")


KINDS_OF_BROKERS: dict[Making, int] = {
    register: 6,
    beat: 10,
    beat_all: 12,
    pass_time: 6,
    expire_sessions: 1,
    shut_down: 4,
    restore_brokers: 8,
    unregister: 1,
    producer_ids: 2,
    rebalance: 3,
    elect_uncleanly: 3,
}
"""The kinds of steps about brokers, with their relative frequency."""
