"""Brokers start, stop and lose directories while partitions are created, reassigned and elected; after every step each partition's
invariants hold.

They are the invariants that Kafka's controller keeps, not more. If a reassignment that removed a replica left the ISR below its minimum,
the replica stays eligible. If a second reassignment adds no replica, the first one's adding replicas remain listed although it removes
them.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.cluster.image import ELR_VERSION, PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import NO_LEADER, ConfigRecord, MetadataRecord
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.controller.assign_directories import assign_directories
from ottla.broker.controller.cluster_configs import alter_cluster_configs
from ottla.broker.controller.create_topics import MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.delete_topics import TopicRef, delete_topics
from ottla.broker.controller.elect_leaders import balance_leaders, elect_leaders, elect_unclean_leaders
from ottla.broker.controller.leader_changes import (
    broker_fenced,
    broker_restarted,
    broker_shutting_down,
    broker_unfenced,
    broker_unregistered,
    directories_failed,
)
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.reassign_partitions import alter_partition_reassignments
from ottla.broker.core.effects import Effects
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData
from ottla.protocol.messages.k73_assign_replicas_to_dirs import PartitionData as Placed
from ottla.protocol.messages.k73_assign_replicas_to_dirs import TopicData as PlacedTopic
from tests.support.controllers import LiveController

DIRECTORIES = 17
ELR = 23
NAMES = ["a", "b"]
BROKERS = range(1, 6)
brokers = st.sampled_from(BROKERS)
picks = st.integers(0, 20)
"""Which partition, counted round all there are."""


class Partitions(RuleBasedStateMachine):
    """Brokers 1 to 5 with two directories each, and topics with min.insync.replicas=2."""

    @initialize(level=st.sampled_from([7, 11, 12, 16, 17, 22, 23, 30, 30, 30]), elr=st.booleans(), replicas=st.integers(2, 4))
    def begin(self, level: int, elr: bool, replicas: int) -> None:
        self.with_elr = elr and level >= ELR
        self.directories = 2 if level >= DIRECTORIES else 0
        self.live = LiveController(level, {ELR_VERSION: 1} if self.with_elr else {})
        self.state = self.live.state
        self.ids = 0
        for broker_id in BROKERS:
            self.live.add_broker(broker_id, rack="xyx"[broker_id % 3], directories=self.directories)
        self.live.write(ConfigRecord(4, "", "min.insync.replicas", "2"))
        self.before: dict[tuple[bytes, int], PartitionRegistration] = {}
        self.create("a", 2, replicas)

    # --- brokers ----------------------------------------------------------------------------------------------------------------

    @rule(broker_id=brokers)
    def fence(self, broker_id: int) -> None:
        if broker_id in self.state.image.brokers and not self.live.broker(broker_id).fenced:
            self.decided(broker_fenced(self.state, broker_id))

    @rule(broker_id=brokers)
    def unfence(self, broker_id: int) -> None:
        """Unfence the broker, unless it is in controlled shutdown: such a process ends before it registers again."""
        broker = self.state.image.brokers.get(broker_id)
        if broker is not None and broker.fenced and not broker.in_controlled_shutdown:
            self.decided(broker_unfenced(self.state, broker_id))

    @rule(broker_id=brokers)
    def shut_down(self, broker_id: int) -> None:
        if self.state.is_active(broker_id):
            self.decided(broker_shutting_down(self.state, broker_id))

    @rule(broker_id=brokers, cleanly=st.booleans())
    def restart(self, broker_id: int, cleanly: bool) -> None:
        """Register a new incarnation of a broker that is or was registered."""
        self.decided(broker_restarted(self.state, broker_id, cleanly=cleanly))
        self.live.add_broker(broker_id, fenced=True, rack="xyx"[broker_id % 3], directories=self.directories)

    @rule(broker_id=brokers)
    def unregister(self, broker_id: int) -> None:
        if broker_id in self.state.image.brokers:
            self.decided(broker_unregistered(self.state, broker_id))

    @rule(broker_id=brokers)
    def lose_a_directory(self, broker_id: int) -> None:
        broker = self.state.image.brokers.get(broker_id)
        if broker is not None and len(broker.directories) == 2:
            self.decided(directories_failed(self.state, broker_id, broker.directories[:1]))

    # --- topics -----------------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 3), replicas=st.integers(1, 4))
    def create(self, name: str, partitions: int, replicas: int) -> None:
        wanted = NewTopic(name, partitions, replicas)
        self.live.run(create_topics(self.state.catalog, [wanted], Placement.in_cluster(self.state), lambda _: None, self.new_id))

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4))
    def grow(self, name: str, count: int) -> None:
        self.live.run(create_partitions(self.state.catalog, [MorePartitions(name, count)], Placement.in_cluster(self.state)))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.live.run(delete_topics(self.state.catalog, [TopicRef(name)]))

    @rule(
        name=st.sampled_from(NAMES),
        change=st.sampled_from([("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1"), ("min.insync.replicas", "3")]),
        remove=st.booleans(),
    )
    def configure(self, name: str, change: tuple[str, str], remove: bool) -> None:
        op = ConfigOp(change[0], OpType.DELETE, None) if remove else ConfigOp(change[0], OpType.SET, change[1])
        self.live.run(alter_cluster_configs(self.state, [AlterResource(2, name, [op])], forwarded=True))

    # --- partitions -------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.state.image.topics)
    @rule(pick=picks, members=st.sets(brokers), by_epoch=st.booleans())
    def alter_in_sync_set(self, pick: int, members: set[int], by_epoch: bool) -> None:
        """Propose an ISR as the partition's leader would: the replicas among `members`, and the leader itself."""
        topic, index, now = self.partition(pick)
        leader = self.state.image.brokers.get(now.leader)
        if leader is None:
            return
        isr = [replica for replica in now.replicas if replica in members or replica == now.leader]
        epochs = {member: broker.epoch for member, broker in self.state.image.brokers.items() if by_epoch}
        partition_data = PartitionData(
            index,
            now.leader_epoch,
            new_isr_with_epochs=[BrokerState(member, epochs.get(member, -1)) for member in isr],
            partition_epoch=now.partition_epoch,
        )
        request = AlterPartitionRequest(now.leader, leader.epoch, [TopicData(topic.topic_id, [partition_data])])
        self.live.run(alter_partition(self.state, request))

    @rule(kind=st.sampled_from([0, 1]))
    def elect(self, kind: int) -> None:
        self.live.run(elect_leaders(self.state, ElectLeadersRequest(kind, None)))

    @rule(decide=st.sampled_from([balance_leaders, elect_unclean_leaders]))
    def elect_now_and_then(self, decide: Callable[..., Effects[MetadataRecord, bool]]) -> None:
        self.live.run(decide(self.state))

    @precondition(lambda self: self.state.image.topics)
    @rule(pick=picks, to=st.none() | st.lists(brokers, min_size=1, max_size=4, unique=True))
    def move(self, pick: int, to: list[int] | None) -> None:
        topic, index, _ = self.partition(pick)
        topics = [ReassignableTopic(topic.name, [ReassignablePartition(index, to)])]
        self.live.run(alter_partition_reassignments(self.state, AlterPartitionReassignmentsRequest(topics=topics)))

    @precondition(lambda self: self.directories and self.state.image.topics)
    @rule(pick=picks, broker_id=brokers, choice=st.integers(0, 2))
    def assign(self, pick: int, broker_id: int, choice: int) -> None:
        """Report a directory for a broker's replica: one of the broker's own, or an unknown one."""
        broker = self.state.image.brokers.get(broker_id)
        if broker is not None:
            topic, index, _ = self.partition(pick)
            place = [*broker.directories, b"?" * 16][min(choice, len(broker.directories))]
            directory = DirectoryData(place, [PlacedTopic(topic.topic_id, [Placed(index)])])
            self.live.run(assign_directories(self.state, AssignReplicasToDirsRequest(broker_id, broker.epoch, [directory])))

    # --- what holds -------------------------------------------------------------------------------------------------------------

    @invariant()
    def check(self) -> None:
        now = {(topic.topic_id, index): one for topic in self.state.image.topics.values() for index, one in topic.partitions.items()}
        for (topic_id, index), partition in now.items():
            self.check_sets(partition)
            self.check_brokers(partition)
            before = self.before.get((topic_id, index))
            if before is not None:
                assert partition.leader_epoch >= before.leader_epoch
                assert partition.partition_epoch >= before.partition_epoch
                assert partition == before or partition.partition_epoch > before.partition_epoch
                assert partition.leader == before.leader or partition.leader_epoch > before.leader_epoch
                assert set(before.replicas) <= set(partition.replicas) or partition.leader_epoch > before.leader_epoch
        self.before = now

    def check_sets(self, partition: PartitionRegistration) -> None:
        replicas, isr, elr = (set(each) for each in (partition.replicas, partition.isr, partition.elr))
        assert len(replicas) == len(partition.replicas)
        assert len(isr) == len(partition.isr)
        assert isr <= replicas
        assert isr or self.with_elr
        assert partition.leader in (*isr, NO_LEADER)
        assert not elr or self.with_elr
        assert not elr & isr
        assert {*partition.adding_replicas, *partition.removing_replicas} <= replicas
        assert len(partition.directories) == len(partition.replicas)

    def check_brokers(self, partition: PartitionRegistration) -> None:
        assert partition.leader == NO_LEADER or self.state.is_active(partition.leader)
        fenced = [member for member in partition.isr if not self.state.is_active(member)]
        assert not fenced or len(partition.isr) == 1

    # --- help -------------------------------------------------------------------------------------------------------------------

    def decided(self, records: list[MetadataRecord]) -> None:
        self.live.run(Effects(records, None))

    def new_id(self) -> bytes:
        self.ids += 1
        return self.ids.to_bytes(16, "big")

    def partition(self, pick: int) -> tuple[TopicImage, int, PartitionRegistration]:
        every = [(topic, index, one) for topic in self.state.image.topics.values() for index, one in topic.partitions.items()]
        return every[pick % len(every)]


Partitions.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_what_must_hold_of_a_partition_always_does = Partitions.TestCase
