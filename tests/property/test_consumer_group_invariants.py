"""Random sequences of events in a consumer group: lost responses, silent members, topics that are created and deleted, failing disks,
restarts.

A second state machine adds delayed, lost and repeated heartbeats, of clients that may still be applying their last assignment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_heartbeat import HeartbeatResult
from ottla.broker.groups.consumer_member import Assignment
from ottla.broker.groups.embedded_protocol import read_assignment
from ottla.broker.groups.modern import ModernState
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import FakeTopics, GroupsDriver, facts_of, subscription

TOPICS = ["t", "u", "v"]
topic_sets = st.frozensets(st.sampled_from(TOPICS), min_size=1)
indexes = st.integers(0, 7)
Partitions = frozenset[tuple[bytes, int]]


@dataclass
class Client:
    """A client's view. `target` is the last assignment that it received, `owned` the partitions that it processes.

    Like a real client, it reports its partitions only after it has applied its assignment, and sends all fields after a lost response.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    is_classic: bool = False
    epoch: int = 0
    owned: Partitions = field(default_factory=frozenset)
    target: Partitions = field(default_factory=frozenset)
    missed_an_answer: bool = False

    def drop_all(self) -> None:
        self.epoch, self.owned, self.target = 0, frozenset(), frozenset()

    def settle(self) -> None:
        """Apply the assignment."""
        self.owned = self.target


def flat(assignment: Assignment) -> Partitions:
    return frozenset((topic, partition) for topic, partitions in assignment.items() for partition in partitions)


def nested(partitions: Partitions) -> Assignment:
    return {topic: frozenset(p for t, p in partitions if t == topic) for topic, _ in partitions}


class GroupLife(RuleBasedStateMachine):
    """Clients are addressed by their index. A client that the group has removed learns it from the response to its next heartbeat."""

    @initialize(assignor=st.sampled_from([None, "range"]))
    def begin(self, assignor: str | None) -> None:
        self.driver = GroupsDriver(FakeTopics(t=4, u=2), session_timeout_ms=45_000, allows_downgrade=False)
        self.assignor = assignor
        self.clients: list[Client] = []
        self.names = 0

    # --- what members do --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=topic_sets, instance=st.sampled_from([None, None, "i"]), classic=st.booleans())
    def arrive(self, topics: frozenset[str], instance: str | None, classic: bool) -> None:
        self.names += 1
        client = Client(f"m{self.names}", topics, instance, is_classic=classic and instance is None)
        self.clients.append(client)
        if not client.is_classic:
            self.heartbeat(client)
            client.settle()
        elif isinstance(self.driver.machine.groups.get("g"), ConsumerGroup) and self.driver.group.members:
            self.rejoin_classic(client, knows_id=False)
        else:
            self.clients.remove(client)

    @precondition(lambda self: self.clients)
    @rule(index=indexes, lost=st.sampled_from([False, False, False, True]), says=st.booleans(), settles=st.booleans())
    def beat(self, index: int, lost: bool, says: bool, settles: bool) -> None:
        client = self.client(index)
        if client.is_classic:
            self.beat_classic(client)
        else:
            self.heartbeat(client, lost=lost, says=says)
        if settles:
            client.settle()

    @precondition(lambda self: self.clients)
    @rule(says=st.booleans(), settles=st.booleans())
    def all_beat(self, says: bool, settles: bool) -> None:
        for client in list(self.clients):
            if client.is_classic:
                self.beat_classic(client)
            else:
                self.heartbeat(client, says=says)
            if settles:
                client.settle()

    @precondition(lambda self: self.clients)
    @rule(index=indexes)
    def settle(self, index: int) -> None:
        self.client(index).settle()

    @precondition(lambda self: self.clients)
    @rule(index=indexes, topics=topic_sets)
    def subscribe(self, index: int, topics: frozenset[str]) -> None:
        client = self.client(index)
        client.topics = topics
        if not client.is_classic:
            self.heartbeat(client, says=True)

    @precondition(lambda self: self.clients)
    @rule(index=indexes, for_a_while=st.booleans())
    def leave(self, index: int, for_a_while: bool) -> None:
        client = self.client(index)
        if client.is_classic or client.epoch <= 0:
            return
        self.clients.remove(client)
        epoch = -2 if for_a_while and client.instance_id else -1
        try:
            self.driver.beat(client.member_id, epoch, instance_id=client.instance_id)
        except Rejected:
            assert client.member_id not in self.members() or self.driver.refuses_writes

    @precondition(lambda self: self.clients)
    @rule(index=indexes)
    def vanish(self, index: int) -> None:
        """Let a client's process die: it sends nothing more."""
        self.clients.remove(self.client(index))

    # --- what happens to them ---------------------------------------------------------------------------------------------------

    @rule(delta_ms=st.sampled_from([1_000, 1_000, 10_000, 31_000, 46_000]))
    def pass_time(self, delta_ms: int) -> None:
        if not self.driver.refuses_writes:
            self.driver.pass_ms(delta_ms)

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow_topic(self, name: str, more: int) -> None:
        known = self.driver.topics.by_name(name)
        self.driver.topics.set(name, min(8, more + (known.partitions if known is not None else 0)))

    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name: str) -> None:
        self.driver.topics.set(name, 0)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @rule(broken=st.sampled_from([False, False, False, True]))
    def disk(self, broken: bool) -> None:
        self.driver.refuses_writes = broken

    @rule()
    def come_to_rest(self) -> None:
        """Let all clients send heartbeats for two minutes without other events, then check that the group is at rest. The check is left out
        if all members are classic: their heartbeats compute no assignment (KAFKA:
        GroupMetadataManager.classicGroupHeartbeatToConsumerGroup)."""
        self.driver.refuses_writes = False
        for _ in range(24):
            self.driver.pass_ms(5_000)
            self.all_beat(says=True, settles=True)
        group = self.driver.machine.groups.get("g")
        if isinstance(group, ConsumerGroup) and any(member.classic is None for member in group.members.values()):
            self.check_rest()

    def check_rest(self) -> None:
        group, topics = self.driver.group, self.driver.topics
        assert group.state is ModernState.STABLE
        wanted = {
            (info.topic_id, partition)
            for name in group.subscribed_topics()
            if (info := topics.by_name(name)) is not None
            for partition in range(info.partitions)
        }
        assert {partition for member in group.members.values() for partition in member.held_partitions()} == wanted, "all is assigned"
        for client in self.clients:
            if client.member_id in group.members:
                assert client.owned == flat(group.members[client.member_id].assigned), "members know what they have"
        if self.assignor is None:
            self.check_balance(group)

    def check_balance(self, group: ConsumerGroup) -> None:
        load = {member_id: len(list(member.held_partitions())) for member_id, member in group.members.items()}
        for giver, member in group.members.items():
            for topic_id, _ in member.held_partitions():
                info = self.driver.topics.by_id(topic_id)
                assert info is not None
                takers = [other for other, one in group.members.items() if info.name in group.topics_of(one)]
                assert all(load[giver] - load[taker] <= 1 for taker in takers), load

    # --- the leaves ---------------------------------------------------------------------------------------------------------------

    def client(self, index: int) -> Client:
        return self.clients[index % len(self.clients)]

    def members(self) -> set[str]:
        group = self.driver.machine.groups.get("g")
        return set(group.members) if isinstance(group, ConsumerGroup) else set()

    def heartbeat(self, client: Client, *, lost: bool = False, says: bool = True) -> None:
        if client.missed_an_answer:
            client.settle()
        is_full = client.epoch == 0 or client.missed_an_answer
        says = is_full or (says and client.owned == client.target)
        try:
            answer: HeartbeatResult = self.driver.beat(
                client.member_id,
                client.epoch,
                instance_id=client.instance_id,
                rebalance_timeout_ms=30_000 if is_full else -1,
                topic_names=client.topics,
                server_assignor=self.assignor,
                owned=nested(client.owned) if says else None,
            )
        except Rejected as refused:
            if refused.code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}:
                client.drop_all()
            elif refused.code in {ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID}:
                self.clients.remove(client)
            elif refused.code is not ErrorCode.NOT_COORDINATOR:
                raise
            return
        client.missed_an_answer = lost
        if lost:
            return
        client.epoch = answer.epoch
        if answer.assignment is not None:
            client.target = flat(answer.assignment)

    def beat_classic(self, client: Client) -> None:
        error = self.driver.classic_beat(client.member_id, client.epoch)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin_classic(client, knows_id=True)
        elif error is not ErrorCode.NONE:
            self.clients.remove(client)

    def rejoin_classic(self, client: Client, *, knows_id: bool) -> None:
        owned = nested(client.owned)
        protocols = (JoinProtocol("cooperative-sticky", subscription(*sorted(client.topics), owned=owned)),)
        try:
            answer = self.driver.classic_join(
                client.member_id if knows_id else "", new_member_id=client.member_id, protocols=protocols, session_timeout_ms=45_000
            )
        except Rejected:
            if not knows_id:
                self.clients.remove(client)
            return
        assert answer is not None
        if answer.error is not ErrorCode.NONE:
            self.clients.remove(client)
            return
        client.epoch = answer.generation
        synced = self.driver.sync(client.member_id, client.epoch)
        if synced.error is ErrorCode.NONE:
            client.target = flat(read_assignment(synced.assignment, self.driver.topics))

    # --- what always holds ----------------------------------------------------------------------------------------------------------

    @invariant()
    def no_partition_is_in_two_members_hands(self) -> None:
        living = [client for client in self.clients if client.member_id in self.members()]
        for one, other in combinations(living, 2):
            assert not (one.owned | one.target) & (other.owned | other.target), (one, other)

    @invariant()
    def no_partition_is_held_by_two_members_of_the_group(self) -> None:
        group = self.driver.machine.groups.get("g")
        if isinstance(group, ConsumerGroup):
            held = [partition for member in group.members.values() for partition in member.held_partitions()]
            assert len(held) == len(set(held))
            assert all(group.holder(*partition) is not None for partition in held)

    @invariant()
    def the_log_gives_back_the_group_that_is(self) -> None:
        live, restored = self.driver.machine.groups.get("g"), self.driver.restored().groups.get("g")
        if isinstance(live, ConsumerGroup):
            assert isinstance(restored, ConsumerGroup)
            assert facts_of(restored) == facts_of(live)

    @invariant()
    def compaction_changes_nothing(self) -> None:
        live = self.driver.machine.groups.get("g")
        if isinstance(live, ConsumerGroup):
            kept = {key: (offset, value) for offset, (key, value) in enumerate(self.driver.log)}
            before = self.driver.log
            try:
                self.driver.log = [(key, value) for key, (_, value) in sorted(kept.items(), key=lambda one: one[1][0])]
                restored = self.driver.restored().groups.get("g")
            finally:
                self.driver.log = before
            assert isinstance(restored, ConsumerGroup)
            assert facts_of(restored) == facts_of(live)

    @invariant()
    def every_member_has_a_deadline(self) -> None:
        if self.members():
            assert self.driver.machine.next_deadline("g") is not None


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=100, stateful_step_count=40, print_blob=True)


class Fate(Enum):
    """What happens to a heartbeat in the network."""

    ANSWERED = "answered"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    REPEATED = "repeated"
    LATE_REQUEST = "late request"
    """The request is on its way until a later step."""
    LATE_ANSWER = "late answer"
    """The request is handled, and its answer is on its way until a later step."""


@dataclass
class Flight:
    """A heartbeat in flight. `acknowledges` is the assignment that it reports as applied, None if it reports none."""

    fields: dict[str, Any]
    acknowledges: Partitions | None
    is_handled: bool = False
    answer: HeartbeatResult | ErrorCode | None = None


@dataclass
class Peer:
    """A client that behaves like Kafka's own and librdkafka: it has one heartbeat in flight, and sends a full one after each failure. It
    reports its partitions in full heartbeats and after applying an assignment; while it applies one, it reports its previous partitions."""

    member_id: str
    topics: frozenset[str]
    keeps_until_answered: bool
    """Whether an acknowledgement counts for the client when it is answered (librdkafka) or when it is sent (Kafka's own client)."""
    epoch: int = 0
    current: Partitions = field(default_factory=frozenset)
    target: Partitions = field(default_factory=frozenset)
    is_applied: bool = True
    is_acknowledged: bool = True
    is_full: bool = True
    has_new_topics: bool = False
    flight: Flight | None = None
    confirmed: Partitions = field(default_factory=frozenset)
    """The partitions of the last report that the coordinator took."""

    def apply(self) -> None:
        """Finish applying the assignment: the new partitions are assigned and the revoked ones released."""
        if not self.is_applied:
            self.is_applied, self.is_acknowledged = True, False
            if not self.keeps_until_answered:
                self.current = self.target

    def request(self) -> Flight:
        acknowledges = self.target if self.is_applied and not self.is_acknowledged else None
        owned = acknowledges if acknowledges is not None else self.current if self.is_full else None
        fields: dict[str, Any] = {"epoch": self.epoch, "owned": None if owned is None else nested(owned)}
        if self.is_full:
            fields["rebalance_timeout_ms"] = 30_000
        if self.is_full or self.has_new_topics:
            fields["topic_names"] = self.topics
        self.flight = Flight(fields, acknowledges)
        return self.flight

    def take(self, flight: Flight, answer: HeartbeatResult) -> None:
        self.is_full, self.has_new_topics, self.epoch = False, False, answer.epoch
        if flight.acknowledges is not None and flight.acknowledges == self.target:
            self.current, self.is_acknowledged = self.target, True
        if answer.assignment is not None and flat(answer.assignment) != self.target:
            self.target, self.is_applied, self.is_acknowledged = flat(answer.assignment), False, True

    def give_up(self) -> None:
        """Treat the heartbeat in flight as failed, after a timeout or a lost connection."""
        self.flight, self.is_full = None, True

    def begin_anew(self) -> None:
        self.epoch, self.current, self.target, self.confirmed = 0, frozenset(), frozenset(), frozenset()
        self.is_applied = self.is_acknowledged = self.is_full = True


class GroupOnABadNetwork(RuleBasedStateMachine):
    """Heartbeats of one client are handled in the order in which it sent them, which TCP and the order within a broker's loop ensure. A
    request whose client no longer waits is handled before that client's next one, or never."""

    @initialize(keep=st.lists(st.booleans(), min_size=2, max_size=3), names=topic_sets)
    def begin(self, keep: list[bool], names: frozenset[str]) -> None:
        self.driver = GroupsDriver(FakeTopics(t=3, u=2, v=1), session_timeout_ms=45_000)
        self.peers = [Peer(f"m{number}", names, keeps) for number, keeps in enumerate(keep)]
        self.names = len(keep)
        for _ in range(4):
            self.turn()

    @rule()
    def turn(self) -> None:
        """Let every client without a pending request send a heartbeat, receive the response, and apply its assignment."""
        for peer in self.peers:
            if peer.flight is None:
                self.handle(peer, flight := peer.request())
                self.answer(peer, flight)
                peer.apply()

    @precondition(lambda self: len(self.peers) < 4)
    @rule(topics=topic_sets, keeps=st.booleans())
    def arrive(self, topics: frozenset[str], keeps: bool) -> None:
        self.names += 1
        self.peers.append(Peer(f"m{self.names}", topics, keeps))

    @precondition(lambda self: self.peers)
    @rule(index=indexes, fate=st.sampled_from([Fate.ANSWERED, Fate.ANSWERED, *Fate]))
    def beat(self, index: int, fate: Fate) -> None:
        peer = self.peer(index)
        if peer.flight is not None:
            return
        flight = peer.request()
        if fate is Fate.REQUEST_LOST:
            peer.give_up()
        if fate in {Fate.REQUEST_LOST, Fate.LATE_REQUEST}:
            return
        self.handle(peer, flight)
        if fate is Fate.REPEATED:
            first = flight.answer
            self.handle(peer, flight)
            flight.answer = first
        if fate is Fate.ANSWER_LOST:
            peer.give_up()
        elif fate is not Fate.LATE_ANSWER:
            self.answer(peer, flight)

    @precondition(lambda self: self.peers)
    @rule(index=indexes)
    def go_on(self, index: int) -> None:
        """Deliver the delayed heartbeat, if it was not handled yet, and its response."""
        peer = self.peer(index)
        if peer.flight is not None:
            if not peer.flight.is_handled:
                self.handle(peer, peer.flight)
            self.answer(peer, peer.flight)

    @precondition(lambda self: self.peers)
    @rule(index=indexes, is_handled=st.booleans())
    def give_up(self, index: int, is_handled: bool) -> None:
        """Let the client stop waiting for its request, which the broker may handle nevertheless."""
        peer = self.peer(index)
        if peer.flight is not None:
            if is_handled and not peer.flight.is_handled:
                self.handle(peer, peer.flight)
            peer.give_up()

    @precondition(lambda self: self.peers)
    @rule(index=indexes)
    def apply(self, index: int) -> None:
        self.peer(index).apply()

    @precondition(lambda self: self.peers)
    @rule(index=indexes, topics=topic_sets)
    def subscribe(self, index: int, topics: frozenset[str]) -> None:
        peer = self.peer(index)
        peer.topics, peer.has_new_topics = topics, True

    @precondition(lambda self: self.peers)
    @rule(index=indexes, leaves=st.booleans())
    def end(self, index: int, leaves: bool) -> None:
        """Let the client leave, or its process die."""
        peer = self.peer(index)
        self.peers.remove(peer)
        if leaves and peer.epoch > 0:
            self.handle(peer, Flight({"epoch": -1}, None))

    @rule(delta_ms=st.sampled_from([1_000, 1_000, 5_000, 5_000, 5_000, 5_000, 31_000, 46_000]))
    def pass_time(self, delta_ms: int) -> None:
        self.driver.pass_ms(delta_ms)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    def peer(self, index: int) -> Peer:
        return self.peers[index % len(self.peers)]

    def handle(self, peer: Peer, flight: Flight) -> None:
        flight.is_handled = True
        owned = flight.fields.get("owned")
        try:
            flight.answer = self.driver.beat(peer.member_id, **flight.fields)
        except Rejected as refused:
            if refused.code not in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}:
                raise
            flight.answer, peer.confirmed = refused.code, frozenset()
        else:
            peer.confirmed = peer.confirmed if owned is None else flat(owned)

    def answer(self, peer: Peer, flight: Flight) -> None:
        peer.flight = None
        if isinstance(flight.answer, HeartbeatResult):
            peer.take(flight, flight.answer)
        else:
            peer.begin_anew()

    @invariant()
    def no_partition_has_two_owners_that_have_acknowledged_it(self) -> None:
        group = self.driver.machine.groups.get("g")
        members = group.members if isinstance(group, ConsumerGroup) else {}
        for one, other in combinations([peer for peer in self.peers if peer.member_id in members], 2):
            assert not one.confirmed & other.confirmed, (one, other)

    @invariant()
    def a_member_has_all_that_it_has_acknowledged(self) -> None:
        group = self.driver.machine.groups.get("g")
        for peer in self.peers:
            if isinstance(group, ConsumerGroup) and peer.member_id in group.members:
                assert peer.confirmed <= frozenset(group.members[peer.member_id].held_partitions()), peer


TestGroupOnABadNetwork = GroupOnABadNetwork.TestCase
TestGroupOnABadNetwork.settings = settings(max_examples=200, stateful_step_count=50, print_blob=True)
