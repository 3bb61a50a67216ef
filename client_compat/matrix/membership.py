"""Group members that are polled in parallel until the assignment is as a scenario wants, and the group's offsets according to the broker.

Rules:
- A classic client rebalances inside poll, so the members run in separate programs and poll at the same time.
- Records that members receive during a rebalance are kept, because no record may be missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from client_compat.clients.options import ConsumerOptions
from client_compat.matrix.facades import ConsumedRecord, Consumer, Partition
from client_compat.matrix.scenario import ScenarioContext, ScenarioFailed, expect, in_parallel
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest

STABLE_TIMEOUT_S = 45.0
COMMIT_S = 20.0
TURN_MS = 400
MORE = 1_000_000
"""A number of records that no topic has. A poll for this number of records therefore ends only by its timeout."""
OFFSET_FETCH_VERSION = 7

Assignments = list[set[Partition]]


@dataclass(slots=True)
class Members:
    """The consumers of one group, each in its own client program. `taken` holds all received records, by member."""

    consumers: list[Consumer]
    taken: list[list[ConsumedRecord]] = field(default_factory=list)

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def poll(self, timeout_ms: int = TURN_MS) -> None:
        """Poll all members once, at the same time, and add the received records to `taken`."""
        found = in_parallel(*(partial(consumer.poll, MORE, timeout_ms) for consumer in self.consumers))
        for index, records in enumerate(found):
            while len(self.taken) <= index:
                self.taken.append([])
            self.taken[index] += records

    def assignments(self) -> Assignments:
        return [consumer.assignment() for consumer in self.consumers]

    def wait_until_stable(self, wanted: Callable[[Assignments], bool], what: str, timeout_s: float = STABLE_TIMEOUT_S) -> Assignments:
        """Poll until the members' assignments satisfy `wanted` in two polls in a row, and return the assignments. Raises `ScenarioFailed`
        with `what` and the last assignments after `timeout_s` seconds."""
        ends, agreed = time.monotonic() + timeout_s, 0
        while time.monotonic() < ends:
            self.poll()
            agreed = agreed + 1 if wanted(self.assignments()) else 0
            if agreed == 2:
                return self.assignments()
        raise ScenarioFailed(
            f"{what}: not within {timeout_s:.0f} s; the members have {[sorted(assignment) for assignment in self.assignments()]}"
        )

    def wait_for_assignment(self, partitions: set[Partition], sizes: Sequence[int] | None = None) -> Assignments:
        """Poll until every partition has exactly one member, and the members have as many partitions as `sizes` says, in any order; return
        the assignments. Raises `ScenarioFailed` with the last assignments if that takes too long."""

        def matches(assignments: Assignments) -> bool:
            whole = sorted(one for assignment in assignments for one in assignment) == sorted(partitions)
            return whole and (sizes is None or sorted(map(len, assignments)) == sorted(sizes))

        return self.wait_until_stable(matches, f"every partition has one member, {sizes or 'any number'} each")

    def read(self, count: int, timeout_s: float = STABLE_TIMEOUT_S) -> list[ConsumedRecord]:
        """Poll until all members together received `count` different records, and return the records. Raises `ScenarioFailed` after
        `timeout_s` seconds."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            if len(self.places()) >= count:
                return [one for taken in self.taken for one in taken]
            self.poll()
        raise ScenarioFailed(f"{len(self.places())} of {count} records came within {timeout_s:.0f} s")

    def places(self) -> set[tuple[str, int, int]]:
        return {(one.topic, one.partition, one.offset) for taken in self.taken for one in taken}

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()


def partitions_of(*topics: str, count: int) -> set[Partition]:
    return {(topic, index) for topic in topics for index in range(count)}


@dataclass(frozen=True, slots=True)
class GroupTruth:
    """Requests committed offsets of groups from the broker at `port`, without a client library."""

    port: int

    def committed(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the group's committed offset (-1 if there is none) and its metadata for each partition. Raises `ScenarioFailed` if the
        broker returns an error."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()])
        with Client(HOST, self.port, client_id="matrix") as client:
            client.call(FindCoordinatorRequest(key=group, coordinator_keys=[group]))
            answer = client.call(request, OFFSET_FETCH_VERSION)
        expect(answer.error_code == 0, f"the offsets of {group} were refused: {ErrorCode(answer.error_code).name}")
        found = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
        return {place: (found[place].committed_offset, found[place].metadata or "") for place in partitions}

    def offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        return {place: offset for place, (offset, _) in self.committed(group, partitions).items()}

    def wait_until_committed(self, group: str, wanted: Mapping[Partition, int], poll: Callable[[], object]) -> None:
        """Call `poll` until the broker reports the committed offsets `wanted`. Raises `ScenarioFailed` after COMMIT_S seconds."""
        ends = time.monotonic() + COMMIT_S
        while (found := self.offsets(group, list(wanted))) != wanted:
            expect(time.monotonic() < ends, f"committed are {found} after {COMMIT_S:.0f} s, where {dict(wanted)} was to be")
            poll()


def filled(context: ScenarioContext, partitions: int, count: int) -> str:
    """Create a topic with `count` records in each partition; return the topic's name."""
    topic = context.topic(partitions)
    for index in range(partitions):
        context.truth.write_values(topic, [b"%d:%d" % (index, number) for number in range(count)], partition=index)
    return topic


def member(context: ScenarioContext, options: ConsumerOptions, topics: Sequence[str]) -> Consumer:
    """Return a group consumer in its own new client program."""
    consumer = context.another().consumer(**options)
    consumer.subscribe(list(topics))
    return consumer


def group_truth(context: ScenarioContext) -> GroupTruth:
    """Return an object that requests the groups' committed offsets from the broker itself."""
    return GroupTruth(context.broker.process.port)
