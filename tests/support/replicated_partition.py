"""One partition on three brokers and its controller, in one process: real replicas and followers, logs in lists, a network that loses,
delays and reorders messages, and brokers that crash and restart with or without their disk.

`step` does one random action; after each, `check` must hold. The network never invents messages, and a disk never loses only a part of a
log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random

from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.follower import AppendFetched, FetchAction, Follower, RestartLog, TruncateLog
from ottla.broker.replication.in_sync import Accepted, Proposal
from ottla.broker.replication.leadership import Registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.replication.replica import FETCH, PROPOSE, Replica
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchPartition, PartitionData
from tests.support.list_log import Entry, ListLog

NODES = (1, 2, 3)
LAG_MS = 300


@dataclass
class Controller:
    """A controller that elects only ISR members. It records its decisions: registrations, and broker states by node id."""

    state: Registration = field(default_factory=lambda: Registration(1, NODES, NODES, 0, 0))
    liveness: dict[int, BrokerLiveness] = field(default_factory=dict)
    records: list[Registration | dict[int, BrokerLiveness]] = field(default_factory=list)
    epochs: int = 0

    def change(self, isr: tuple[int, ...], leader: int) -> None:
        state = self.state
        elected = leader != state.leader
        self.state = state._replace(
            isr=isr, leader=leader, leader_epoch=state.leader_epoch + elected, partition_epoch=state.partition_epoch + 1
        )
        self.records.append(self.state)

    def elect(self, node: int) -> None:
        """Elect a leader cleanly from the ISR, or the same leader again in a new epoch."""
        self.state = self.state._replace(leader=-1)
        self.change(self.state.isr, node)

    def alive(self) -> list[int]:
        return [node for node, standing in self.liveness.items() if not standing.fenced]

    def register(self, node: int) -> None:
        self.epochs += 1
        self.liveness = self.liveness | {node: BrokerLiveness(self.epochs)}
        self.records.append(self.liveness)
        if self.state.leader == -1 and node in self.state.isr:
            self.change(self.state.isr, node)

    def fence(self, node: int) -> None:
        self.liveness = self.liveness | {node: self.liveness[node]._replace(fenced=True)}
        self.records.append(self.liveness)
        isr = tuple(other for other in self.state.isr if other != node) or self.state.isr
        leader = self.state.leader
        if leader == node:
            leader = next((other for other in isr if other in self.alive()), -1)
        if (isr, leader) != (self.state.isr, self.state.leader):
            self.change(isr, leader)

    def alter(self, node: int, broker_epoch: int, proposal: Proposal) -> Accepted | ErrorCode:
        state, liveness = self.state, self.liveness
        if liveness[node] != BrokerLiveness(broker_epoch):
            return ErrorCode.STALE_BROKER_EPOCH
        if proposal.leader_epoch != state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in proposal.members:
            standing = liveness[member.node]
            if standing.fenced or member.broker_epoch not in {-1, standing.epoch}:
                return ErrorCode.INELIGIBLE_REPLICA
        self.change(tuple(member.node for member in proposal.members), state.leader)
        return Accepted(self.state.leader_epoch, self.state.partition_epoch, frozenset(self.state.isr))


class Broker:
    """A running broker of the simulation. Its log is kept when the broker crashes."""

    def __init__(self, node: int, log: ListLog, epoch: int) -> None:
        self.node = node
        self.log = log
        self.brokers = Brokers(own_epoch=epoch)
        end = log.log_end_offset
        self.replica = Replica(log_end=end, synced=end, high_watermark=log.high_watermark, brokers=self.brokers, lag_max_ms=LAG_MS)
        self.follower: Follower | None = None
        self.registration: Registration | None = None
        self.seen = 0
        """How many of the controller's records this broker has applied."""
        self.led_to = 0
        """If this broker is the leader: its high watermark at the last check, below which it may not fall."""


class ReplicatedPartition:
    """The partition, its brokers and its network. Everything is decided by `seed`."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.min_in_sync = self.rng.choice([1, 2])
        self.controller = Controller()
        self.logs = {node: ListLog() for node in NODES}
        self.running: dict[int, Broker] = {}
        self.network: list[partial[None]] = []
        self.committed: list[Entry] = []
        """The committed records: all that any leader's high watermark has passed. No later leader may lack one of them."""
        self.written = 0
        for node in NODES:
            self.controller.register(node)
        self.controller.records.append(self.controller.state)
        for node in NODES:
            self.start(node)

    # --- actions -----------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Advance the time, and do one random action of the simulation."""
        rng = self.rng
        self.now_ms += rng.randint(0, 20)
        node = rng.choice(NODES)
        broker = self.running.get(node)
        chance = rng.random()
        if chance < 0.35:
            self.deliver(lost=rng.random() < 0.1)
        elif broker is None:
            if chance < 0.50:
                self.controller.register(node)
                self.start(node)
        elif chance < 0.65:
            self.fetch(broker)
        elif chance < 0.80:
            self.produce(broker)
        elif chance < 0.90:
            self.learn(broker)
        elif chance < 0.95:
            self.act(broker, broker.replica.maybe_shrink_isr(self.now_ms))
        elif chance < 0.97:
            self.now_ms += 1000
        elif chance < 0.98:
            self.crash(broker)
        elif node in self.controller.state.isr and node in self.controller.alive():
            self.controller.elect(node)

    def start(self, node: int) -> None:
        """Start the broker `node`, which is registered, with all metadata."""
        broker = self.running[node] = Broker(node, self.logs[node], self.controller.epochs)
        broker.brokers.own_epoch = self.controller.liveness[node].epoch
        broker.replica.min_in_sync_changed(self.min_in_sync, self.now_ms)
        broker.seen = len(self.controller.records)
        broker.brokers.liveness = self.controller.liveness
        self.apply(broker, self.controller.state)

    def crash(self, broker: Broker) -> None:
        """Kill a broker; the controller fences it at once. The high watermark in its checkpoint may be old. Its disk may be lost too,
        unless it is the last member of the ISR."""
        del self.running[broker.node]
        broker.log.high_watermark = self.rng.randint(0, broker.replica.high_watermark)
        self.controller.fence(broker.node)
        if broker.node not in self.controller.state.isr and self.rng.random() < 0.3:
            self.logs[broker.node] = ListLog()

    def learn(self, broker: Broker) -> None:
        """Let a broker apply the next record of the metadata log."""
        if broker.seen == len(self.controller.records):
            return
        record = self.controller.records[broker.seen]
        broker.seen += 1
        if isinstance(record, Registration):
            self.apply(broker, record)
        else:
            broker.brokers.liveness = record

    def apply(self, broker: Broker, registration: Registration) -> None:
        replica, log = broker.replica, broker.log
        if replica.is_stale(registration):
            return
        broker.registration = registration
        if registration.leader == broker.node:
            if replica.is_elected(registration):
                log.epochs.assign(registration.leader_epoch, log.log_end_offset)
            broker.follower = None
            self.act(broker, replica.lead(registration, self.now_ms))
        elif replica.follow(registration) & FETCH:
            broker.follower = Follower(log, registration.leader_epoch) if registration.leader != -1 else None

    def produce(self, broker: Broker) -> None:
        if broker.replica.leads:
            self.written += 1
            broker.log.append(Entry(broker.replica.leader_epoch, self.written))
            self.act(broker, broker.replica.appended(broker.log.log_end_offset, self.now_ms))

    def act(self, broker: Broker, effects: int) -> None:
        broker.log.high_watermark = broker.replica.high_watermark
        if effects & PROPOSE:
            assert broker.replica.proposal is not None
            self.network.append(partial(self.propose, broker, broker.replica.proposal))

    # --- messages ----------------------------------------------------------------------------------------------------------------

    def deliver(self, *, lost: bool = False) -> None:
        """Deliver or lose a random message. A proposed ISR change is repeated until it is answered."""
        if self.network:
            message = self.network.pop(self.rng.randrange(len(self.network)))
            if not lost:
                message()
            elif message.func in {self.propose, self.proposal_completed}:
                self.network.append(message)

    def propose(self, broker: Broker, proposal: Proposal) -> None:
        if self.is_up(broker):
            answer = self.controller.alter(broker.node, broker.brokers.own_epoch, proposal)
            if self.rng.random() < 0.2:
                self.network.append(partial(self.propose, broker, proposal))
            else:
                self.network.append(partial(self.proposal_completed, broker, proposal, answer))

    def proposal_completed(self, broker: Broker, proposal: Proposal, answer: Accepted | ErrorCode) -> None:
        if self.is_up(broker):
            self.act(broker, broker.replica.proposal_completed(proposal, answer, self.now_ms))

    def fetch(self, broker: Broker) -> None:
        follower, registration = broker.follower, broker.registration
        if follower is None or registration is None:
            return
        if follower.truncating:
            self.truncate(broker, follower.fetch_offset)
        if follower.is_ready(self.now_ms):
            self.network.append(partial(self.fetched, broker, follower.request(0, 1), registration.leader))

    def fetched(self, follower: Broker, requested: FetchPartition, leader: int) -> None:
        if leader in self.running:
            data, entries = self.answer(self.running[leader], follower, requested)
            self.network.append(partial(self.fetch_answered, follower, requested, data, entries))

    def answer(self, broker: Broker, follower: Broker, requested: FetchPartition) -> tuple[PartitionData, list[Entry]]:
        """Answer a follower's fetch as the leader, with Kafka's order of checks; return the response and the records that it contains."""
        log, replica, offset = broker.log, broker.replica, requested.fetch_offset
        try:
            replica.check_follower(follower.node, requested.current_leader_epoch)
            data = PartitionData(0, 0, replica.high_watermark, log_start_offset=log.log_start_offset)
            end = log.log_end_offset
            if requested.last_fetched_epoch >= 0:
                epoch, epoch_end = log.epochs.end_offset_for(requested.last_fetched_epoch, end)
                if epoch_end == -1:
                    return PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE), []
                if epoch < requested.last_fetched_epoch or epoch_end < offset:
                    data.diverging_epoch = EpochEndOffset(epoch, epoch_end)
                    return data, []
            if offset > end:
                return PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE), []
            entries = log.read(offset, self.rng.randint(1, 3))
            fetch = FollowerFetch(follower.node, offset, 0, follower.brokers.own_epoch, requested.current_leader_epoch)
            self.act(broker, replica.fetched(fetch, end, self.now_ms))
        except Rejected as error:
            return PartitionData(0, error.code), []
        return data, entries

    def fetch_answered(self, broker: Broker, requested: FetchPartition, data: PartitionData, entries: list[Entry]) -> None:
        follower = broker.follower
        if follower is None or not self.is_up(broker):
            return
        match follower.handle_response(requested, data, self.now_ms):
            case AppendFetched(leader_epoch):
                taken = [entry for entry in entries if entry.epoch <= leader_epoch]
                for entry in taken:
                    broker.log.append(entry)
                broker.replica.appended(broker.log.log_end_offset, self.now_ms)
                self.act(broker, broker.replica.update_high_watermark(data.high_watermark))
                follower.appended(taken[-1].epoch if taken else None, data.high_watermark)
            case TruncateLog(offset):
                self.truncate(broker, offset)
            case FetchAction.ASK_OFFSETS:
                self.ask_offsets(broker, follower, requested)
            case FetchAction.FAIL:
                broker.follower = None

    def ask_offsets(self, broker: Broker, follower: Follower, requested: FetchPartition) -> None:
        assert broker.registration is not None
        leader = self.running.get(broker.registration.leader)
        if leader is None or leader.replica.leader_epoch != requested.current_leader_epoch:
            follower.refused(ErrorCode.UNKNOWN_LEADER_EPOCH, requested, self.now_ms)
            return
        action = follower.handle_offsets(requested, leader.log.log_start_offset, leader.log.log_end_offset, self.now_ms)
        assert not isinstance(action, RestartLog), "nothing is ever deleted"
        if isinstance(action, TruncateLog):
            self.truncate(broker, action.offset)

    def truncate(self, broker: Broker, offset: int) -> None:
        broker.log.truncate_to(offset)
        self.act(broker, broker.replica.truncated(broker.log.log_end_offset))
        assert broker.follower is not None
        broker.follower.truncated()

    def is_up(self, broker: Broker) -> bool:
        return self.running.get(broker.node) is broker

    # --- invariants --------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants after a step, such as that a leader is in the ISR."""
        for broker in self.running.values():
            self.check_leader(broker)
        for node in self.controller.state.isr:
            assert self.logs[node].entries[: len(self.committed)] == self.committed, f"broker {node} is in sync and lacks what is committed"
        for first in self.running.values():
            for second in self.running.values():
                both = min(first.replica.high_watermark, second.replica.high_watermark)
                same = first.log.entries[:both] == second.log.entries[:both]
                assert same, f"brokers {first.node} and {second.node} differ below both high watermarks"

    def check_leader(self, broker: Broker) -> None:
        if not broker.replica.leads:
            broker.led_to = 0
            return
        now = broker.replica.high_watermark
        assert now >= broker.led_to, f"the high watermark of leader {broker.node} went back from {broker.led_to} to {now}"
        broker.led_to = now
        mine = broker.log.entries[:now]
        assert mine[: len(self.committed)] == self.committed[:now], f"leader {broker.node} commits other than what is committed"
        self.committed += mine[len(self.committed) :]

    def settle(self) -> None:
        """Stop all failures, restart all brokers, and deliver all messages."""
        for node in NODES:
            if node not in self.running:
                self.controller.register(node)
                self.start(node)
        for _ in range(60):
            self.now_ms += 1000
            for broker in self.running.values():
                while broker.seen < len(self.controller.records):
                    self.learn(broker)
                self.fetch(broker)
            while self.network:
                self.deliver()
            self.check()
