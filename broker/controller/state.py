"""The state that the controller's decisions read: the metadata, the brokers' sessions, and the node's settings.

Invariants:
- Decisions are functions `decide(state, request, …) -> Effects[MetadataRecord, response]`. They only read the state; to reject a request
  they raise `Rejected`.
- The state changes only in `apply`, which is called with a decision's effects when its records are in the log. A decision that also changes
  state which is only in memory returns `EffectsOutsideLog`.

Source: Kafka's QuorumController, ClusterControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ELR_VERSION, BrokerRegistration, MetadataImage, ResourceType, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges, difference
from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT, parse_setting
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch, BrokerSessions
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.releases.release_behaviour import ReleaseBehaviour
from ottla.protocol.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")
SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
_MARKS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


@dataclass(frozen=True, slots=True)
class EffectsOutsideLog(Effects[MetadataRecord, ResponseT]):
    """The result of a decision (metadata records and a response) that also changes state outside the metadata log, such as brokers'
    sessions. After all records are applied, `process_batch_end_offset` is called with the offset of the last one; without records, with the
    offset of the log's last record."""

    process_batch_end_offset: Callable[[int], None]


@dataclass(slots=True)
class ControllerState:
    """The controller's state: metadata and broker sessions. `voters` are the ids of all quorum voters, including this node's. `random` is
    used for new ids and for the placement of replicas.
    """

    cluster_id: str
    settings: BrokerSettings
    random: Random
    voters: Sequence[int]
    kraft_version: int = 0
    catalog: Catalog = field(default_factory=Catalog)
    registered_at: dict[int, int] = field(default_factory=dict)
    """By broker id, the offset of the metadata log that the broker must have applied before it can be unfenced: the offset of its
    registration record, or a later one."""
    sessions: BrokerSessions = field(init=False)

    def __post_init__(self) -> None:
        session_timeout_ms = self.settings.value(SESSION_TIMEOUT)
        assert isinstance(session_timeout_ms, int)
        self.sessions = BrokerSessions(session_timeout_ms)

    # --- changes -----------------------------------------------------------------------------------------------------------------

    def load(self, image: MetadataImage, last_offset: int, now_ms: int) -> None:
        """Load the metadata image of the log up to and including `last_offset`, when this node becomes the controller.

        Every unfenced broker of another node gets a full session: no broker is fenced for heartbeats that the controller missed
        (KAFKA-18138). The broker of this node gets none, because it ended with the previous process.
        """
        self.catalog.publish(image, difference(self.image, image))
        self.registered_at = dict.fromkeys(image.brokers, last_offset)
        for broker in image.brokers.values():
            self.sessions.register(broker.broker_id, fenced=broker.fenced)
            if not broker.fenced and broker.broker_id != self.settings.node_id:
                self.sessions.touch(BrokerIdAndEpoch(broker.broker_id, broker.epoch), now_ms)

    def end_sessions(self, broker_ids: Iterable[int]) -> None:
        """End the sessions of the brokers that ran in the controller's previous process and ended with it, so that they can register again
        at once.
        """
        for broker_id in broker_ids:
            if broker := self.image.brokers.get(broker_id):
                self.sessions.forget(BrokerIdAndEpoch(broker_id, broker.epoch))

    def following(self, records: Iterable[MetadataRecord]) -> tuple[MetadataImage, ImageChanges]:
        """Return the metadata image that follows with a decision's records, and its changes. This state is unchanged. Raises
        `InconsistentRecord` if a record contradicts earlier ones."""
        return self.catalog.following(record for record in records if not isinstance(record, _MARKS))

    def apply(
        self, effects: Effects[MetadataRecord, ResponseT], base_offset: int, following: tuple[MetadataImage, ImageChanges] | None = None
    ) -> ImageChanges:
        """Apply a decision to this state after its metadata records were written to the log. `base_offset` is the offset of the first
        record, and `following` what the method of that name returned for the records. Return the changes of the metadata image."""
        image, changes = following or self.following(effects.records)
        self.catalog.publish(image, changes)
        for offset, record in enumerate(effects.records, base_offset):
            self._applied(record, offset)
        if isinstance(effects, EffectsOutsideLog):
            effects.process_batch_end_offset(base_offset + len(effects.records) - 1)
        return changes

    def _applied(self, record: MetadataRecord, offset: int) -> None:
        match record:
            case RegisterBrokerRecord(broker_id=broker_id):
                self.registered_at[broker_id] = offset
                self.sessions.remove(broker_id)
                self.sessions.register(broker_id, fenced=record.fenced)
            case UnregisterBrokerRecord(broker_id=broker_id):
                self.registered_at.pop(broker_id, None)
                self.sessions.remove(broker_id)
            case BrokerRegistrationChangeRecord(broker_id=broker_id):
                self.sessions.register(broker_id, fenced=self.image.brokers[broker_id].fenced)

    # --- queries -----------------------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The metadata image after every decision so far, committed or not."""
        return self.catalog.image

    @property
    def metadata_level(self) -> int:
        """The level of `metadata.version`. Raises KeyError before it is set."""
        return self.image.metadata_level

    @property
    def has_elr(self) -> bool:
        """Whether the cluster uses eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELR_VERSION, 0) >= 1

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return the registration of the broker if it has this epoch. Raises Rejected (STALE_BROKER_EPOCH) otherwise."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise Rejected(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise Rejected(ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
        return broker

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker may lead and be in an ISR: it is registered, unfenced and not shutting down."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def topic_setting(self, topic: str, name: str) -> str:
        """Return the value of the setting `name` (`MIN_ISR`: min.insync.replicas, or `UNCLEAN`: unclean.leader.election.enable) for a
        topic. It comes from the first of these that has a valid value: the topic's settings, this node's dynamic settings, the cluster-wide
        dynamic settings, this node's static settings.

        An invalid text is skipped, because Kafka's controller stores any text that a client sends to it directly.
        """
        own = str(self.settings.node_id)
        for kind, resource in (ResourceType.TOPIC, topic), (ResourceType.BROKER, own), (ResourceType.BROKER, CLUSTER_DEFAULT):
            text = self.catalog.configs(kind, resource).get(name)
            if text is not None and is_valid_value(name, text, self.settings.release_behaviour):
                return text
        return str(self.settings.value(name))

    def min_isr(self, topic: TopicImage) -> int:
        """Return the minimum ISR size of the topic's partitions: min.insync.replicas, at most the replication factor
        (`getTopicEffectiveMinIsr`).
        """
        return min(int(self.topic_setting(topic.name, MIN_ISR)), topic.replication_factor)

    def may_elect_uncleanly(self, topic: str) -> bool:
        """Return whether the topic allows unclean elections: if no replica of the ISR is alive, one that may lack acknowledged records
        becomes leader.
        """
        return self.topic_setting(topic, UNCLEAN).lower() == "true"


def is_valid_value(name: str, text: str, like: ReleaseBehaviour) -> bool:
    """Return whether `text` is a valid value of the broker setting `name` in the Kafka release `like`."""
    try:
        parse_setting(name, text, like)
    except Rejected:
        return False
    return True
