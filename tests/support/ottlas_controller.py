"""Ottla's decisions as a controller that is asked in the protocol's messages, beside Kafka's (`controller_judge`).

Its state follows what Kafka's controller wrote, not what it would have written itself: after a difference it goes on from the same state.
Topic ids are Kafka's too, and the random numbers of a request are one number, as there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from ottla.broker.api.topic_answers import error_fields
from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord, TopicRecord
from ottla.broker.cluster.topic_ids import new_topic_id
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.configs.topic_config import check_topic_configs
from ottla.broker.controller.activation import activate
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.controller.assign_directories import assign_directories
from ottla.broker.controller.broker_sessions import Contact
from ottla.broker.controller.cluster_configs import alter_cluster_configs
from ottla.broker.controller.create_topics import MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.delete_topics import TopicRef, delete_topics
from ottla.broker.controller.elect_leaders import balance_leaders, elect_leaders, elect_unclean_leaders
from ottla.broker.controller.feature_updates import FeatureUpdate, update_features
from ottla.broker.controller.heartbeats import fence_stale, heartbeat
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import allocate_block_to
from ottla.broker.controller.reassign_partitions import alter_partition_reassignments, list_partition_reassignments
from ottla.broker.controller.registrations import register_broker, register_controller, unregister_broker
from ottla.broker.controller.state import ControllerState, SoftEffects
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings_load import load
from ottla.protocol.messages import k19_create_topics as k19
from ottla.protocol.messages import k20_delete_topics as k20
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages import k37_create_partitions as k37
from ottla.protocol.messages import k43_elect_leaders as k43
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages import k45_alter_partition_reassignments as k45
from ottla.protocol.messages import k57_update_features as k57
from ottla.protocol.messages import k62_broker_registration as k62
from ottla.protocol.messages import k63_broker_heartbeat as k63
from ottla.protocol.messages import k67_allocate_producer_ids as k67
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from ottla.protocol.messages.registry import response_class
from ottla.protocol.schema import Message, decode, encode
from tests.support.controller_judge import CLUSTER_ID, FIRST_OFFSET, NODE_ID, START_MS, Advance, Answer, Ask, Order, Start, Task

MEMBER: Final = {
    "node.id": str(NODE_ID),
    "process.roles": "broker",
    "controller.quorum.voters": f"{NODE_ID + 1}@localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
Decided = Effects[MetadataRecord, Any]


class Verdict(NamedTuple):
    """What Ottla decided; nothing where it does not decide such an order at all."""

    records: Sequence[MetadataRecord]
    response: Message | None
    more: bool = False


class Draw(Random):
    """`number` for all draws, as Kafka's side has it; for topic ids those that Kafka gave."""

    number = 0

    def __init__(self) -> None:
        super().__init__(0)
        self.topic_ids: deque[bytes] = deque()

    def _randbelow(self, n: int) -> int:  # what every choice and every shuffle of Random goes through
        return self.number % n

    def randbytes(self, n: int) -> bytes:
        """A topic id."""
        return self.topic_ids.popleft() if self.topic_ids else bytes([7] * n)


class OttlasController:
    """`carry_out` takes an order and what Kafka's controller made of it, and gives what Ottla makes of it."""

    def __init__(self) -> None:
        self._draw = Draw()
        self._asked: dict[int, Callable[[Any, int], tuple[Decided, Message]]] = {
            19: self._create_topics,
            20: self._delete_topics,
            33: self._replace_configs,
            37: self._create_partitions,
            43: self._as_decided(elect_leaders),
            44: self._alter_configs,
            45: self._reassign,
            46: self._list_reassignments,
            56: self._as_decided(alter_partition),
            57: self._update_features,
            62: self._register,
            63: self._heartbeat,
            64: self._unregister,
            67: self._producer_ids,
            70: self._register_controller,
            73: self._as_decided(assign_directories),
        }
        self._tasks: dict[str, Callable[[], Decided]] = {
            "fence": lambda: fence_stale(self.state, self.now_ms),
            "elect-preferred": lambda: balance_leaders(self.state),
            "elect-unclean": lambda: elect_unclean_leaders(self.state),
        }

    def carry_out(self, order: Order, theirs: Answer) -> Verdict | None:
        """What comes of the order; None where Ottla has no such decision. Raises whatever a decision raises that is not a refusal."""
        effects: Decided | None = None
        response: Message | None = None
        match order:
            case Start():
                effects = self._start(order)
            case Advance(milliseconds):
                self.now_ms += milliseconds
                effects = Effects([], None)
            case Task(name) if name in self._tasks:
                effects = self._tasks[name]()
            case Ask(message, version, draw) if message.API_KEY in self._asked:
                self._draw.number = draw
                self._draw.topic_ids = topic_ids(theirs)
                effects, response = self._asked[message.API_KEY](decode(type(message), encode(message, version), version), version)
        self._follow(effects, theirs)
        if effects is None:
            return None
        return Verdict(effects.records, response, bool(effects.response) if isinstance(order, Task) else False)

    def _follow(self, effects: Decided | None, theirs: Answer) -> None:
        written = theirs.decoded()
        settle = effects.settle if isinstance(effects, SoftEffects) else lambda _: None
        self.state.carry_out(SoftEffects(written, None, settle), self.end_offset)
        self.end_offset += len(written)

    def _start(self, order: Start) -> Decided:
        settings = load({**MEMBER, **order.settings}, {}, None).settings
        self.state = ControllerState(CLUSTER_ID, settings, self._draw, [NODE_ID])
        self.now_ms, self.end_offset = START_MS, FIRST_OFFSET
        names = sorted(order.features, key=lambda name: (name != METADATA_VERSION, name))
        return activate(self.state, [FeatureLevelRecord(name, order.features[name]) for name in names])

    # --- topics and settings -------------------------------------------------------------------------------------------------------

    def _create_topics(self, request: k19.CreateTopicsRequest, version: int) -> tuple[Decided, Message]:
        wanted = [
            NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                [(each.partition_index, each.broker_ids) for each in topic.assignments],
                [(config.name, config.value) for config in topic.configs],
            )
            for topic in request.topics
        ]
        state = self.state

        def check(overrides: Mapping[str, str]) -> None:
            check_topic_configs(overrides, state.settings)

        effects = create_topics(state.catalog, wanted, Placement.in_cluster(state), check, lambda: new_topic_id(state.random.randbytes))
        results = []
        for topic in effects.response:
            result = k19.CreatableTopicResult(topic.name, topic.topic_id, *error_fields(topic.error))
            result.num_partitions, result.replication_factor = topic.num_partitions, topic.replication_factor
            results.append(result)
        return NOTHING if request.validate_only else effects, k19.CreateTopicsResponse(topics=results)

    def _delete_topics(self, request: k20.DeleteTopicsRequest, version: int) -> tuple[Decided, Message]:
        refs = [TopicRef(name) for name in request.topic_names] + [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
        effects = delete_topics(self.state.catalog, refs)
        results = [k20.DeletableTopicResult(topic.name, topic.topic_id, *error_fields(topic.error)) for topic in effects.response]
        return effects, k20.DeleteTopicsResponse(responses=results)

    def _create_partitions(self, request: k37.CreatePartitionsRequest, version: int) -> tuple[Decided, Message]:
        wanted = [
            MorePartitions(topic.name, topic.count, None if topic.assignments is None else [each.broker_ids for each in topic.assignments])
            for topic in request.topics
        ]
        effects = create_partitions(self.state.catalog, wanted, Placement.in_cluster(self.state))
        results = [k37.CreatePartitionsTopicResult(name, *error_fields(error)) for name, error in effects.response]
        return NOTHING if request.validate_only else effects, k37.CreatePartitionsResponse(results=results)

    def _alter_configs(self, request: k44.IncrementalAlterConfigsRequest, version: int) -> tuple[Decided, Message]:
        changes = [
            AlterResource(each.resource_type, each.resource_name, [ConfigOp(op.name, op.config_operation, op.value) for op in each.configs])
            for each in request.resources
        ]
        effects = alter_cluster_configs(self.state, changes, forwarded=False)
        results = [
            k44.AlterConfigsResourceResponse(*error_fields(error), change.resource_type, change.name)
            for change, error in zip(changes, effects.response, strict=True)
        ]
        return NOTHING if request.validate_only else effects, k44.IncrementalAlterConfigsResponse(responses=results)

    def _replace_configs(self, request: k33.AlterConfigsRequest, version: int) -> tuple[Decided, Message]:
        changes = [
            AlterResource(
                each.resource_type, each.resource_name, [ConfigOp(op.name, OpType.SET, op.value) for op in each.configs], replace=True
            )
            for each in request.resources
        ]
        effects = alter_cluster_configs(self.state, changes, forwarded=False)
        results = [
            k33.AlterConfigsResourceResponse(*error_fields(error), change.resource_type, change.name)
            for change, error in zip(changes, effects.response, strict=True)
        ]
        return NOTHING if request.validate_only else effects, k33.AlterConfigsResponse(responses=results)

    # --- brokers -------------------------------------------------------------------------------------------------------------------

    def _producer_ids(self, request: k67.AllocateProducerIdsRequest, version: int) -> tuple[Decided, Message]:
        try:
            effects = allocate_block_to(self.state, request.broker_id, request.broker_epoch)
        except Rejected as error:
            return NOTHING, refused(request, error)
        block = effects.response
        return effects, k67.AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))

    def _as_decided(self, decide: Callable[[ControllerState, Any], Decided]) -> Callable[[Any, int], tuple[Decided, Message]]:
        def answered(request: Message, version: int) -> tuple[Decided, Message]:
            try:
                effects = decide(self.state, request)
            except Rejected as error:
                return NOTHING, refused(request, error)
            return effects, effects.response

        return answered

    def _reassign(self, request: k45.AlterPartitionReassignmentsRequest, version: int) -> tuple[Decided, Message]:
        if not request.topics:
            return NOTHING, k45.AlterPartitionReassignmentsResponse(error_message=None)
        return self._as_decided(alter_partition_reassignments)(request, version)

    def _list_reassignments(self, request: ListPartitionReassignmentsRequest, version: int) -> tuple[Decided, Message]:
        return NOTHING, list_partition_reassignments(self.state, request)

    def _register(self, request: k62.BrokerRegistrationRequest, version: int) -> tuple[Decided, Message]:
        try:
            effects = register_broker(self.state, request, self.end_offset, self.now_ms, tells_last_epoch=version >= 3)
        except Rejected as error:
            return NOTHING, refused(request, error)
        return effects, k62.BrokerRegistrationResponse(broker_epoch=effects.response)

    def _heartbeat(self, request: k63.BrokerHeartbeatRequest, version: int) -> tuple[Decided, Message]:
        self.state.sessions.touch(Contact(request.broker_id, request.broker_epoch), self.now_ms)
        try:
            effects = heartbeat(self.state, request)
        except Rejected as error:
            return NOTHING, refused(request, error)
        beat = effects.response
        return effects, k63.BrokerHeartbeatResponse(0, 0, beat.is_caught_up, beat.state.is_fenced, beat.should_shut_down)

    def _unregister(self, request: UnregisterBrokerRequest, version: int) -> tuple[Decided, Message]:
        try:
            return unregister_broker(self.state, request.broker_id), UnregisterBrokerResponse()
        except Rejected as error:
            return NOTHING, refused(request, error)

    def _register_controller(self, request: ControllerRegistrationRequest, version: int) -> tuple[Decided, Message]:
        try:
            return register_controller(self.state, request), ControllerRegistrationResponse(error_message=None)
        except Rejected as error:
            return NOTHING, refused(request, error)

    def _update_features(self, request: k57.UpdateFeaturesRequest, version: int) -> tuple[Decided, Message]:
        updates = [FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates]
        try:
            effects = update_features(self.state, updates)
        except Rejected as error:
            return NOTHING, refused(request, error)
        results = [k57.UpdatableFeatureResult(each.feature) for each in request.feature_updates] if version <= 1 else []
        return NOTHING if request.validate_only else effects, k57.UpdateFeaturesResponse(results=results)


def topic_ids(answer: Answer) -> deque[bytes]:
    """The ids of new topics; of topics that were only validated those in the response."""
    ids = deque(record.topic_id for record in answer.decoded() if isinstance(record, TopicRecord))
    if not ids and isinstance(answer.response, k19.CreateTopicsResponse):
        ids = deque(topic.topic_id for topic in answer.response.topics if topic.topic_id != bytes(16))
    return ids


def refused(request: Message, error: Rejected) -> Message:
    """The answer to a request that is refused whole."""
    response: Any = response_class(request.API_KEY)()
    response.error_code = error.code
    if isinstance(request, k43.ElectLeadersRequest):
        response.replica_election_results = [
            k43.ReplicaElectionResult(topic.topic, [k43.PartitionResult(index, *error_fields(error)) for index in topic.partitions])
            for topic in request.topic_partitions or ()
        ]
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response


NOTHING: Final[Decided] = Effects([], None)
