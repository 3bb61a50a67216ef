"""What the controller of a cluster decides upon: the metadata, what it keeps in memory of the brokers, and what it was told at its start.

Rules that hold inside:
- Decisions are functions `decide(state, request, …) -> Effects[MetadataRecord, answer]`. They only read the state, and raise `Rejected`.
- The state changes in one place: `carry_out`, called with what was decided when its records are in the log. A decision that also changes
  what is kept in memory only says so in `SoftEffects`.

Source: KAFKA QuorumController, ClusterControlManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from ottla.broker.controller.broker_sessions import BrokerSessions, Contact
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")
SESSION_TIMEOUT: Final = "broker.session.timeout.ms"
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
_MARKS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


@dataclass(frozen=True, slots=True)
class SoftEffects(Effects[MetadataRecord, ResponseT]):
    """Effects that also change what is in no record: `settle` is called with the offset of the last record, after they were applied.

    Without records it is the offset of the last record of the log.
    """

    settle: Callable[[int], None]


@dataclass(slots=True)
class ControllerState:
    """`voters` are the ids of all nodes of the quorum, this one's (`settings.node_id`) among them. `random` gives ids and placements."""

    cluster_id: str
    settings: BrokerSettings
    random: Random
    voters: Sequence[int]
    kraft_version: int = 0
    catalog: Catalog = field(default_factory=Catalog)
    registered_at: dict[int, int] = field(default_factory=dict)
    """By broker the offset that it has to have read to be let in: at or after its registration."""
    sessions: BrokerSessions = field(init=False)

    def __post_init__(self) -> None:
        session_timeout_ms = self.settings.value(SESSION_TIMEOUT)
        assert isinstance(session_timeout_ms, int)
        self.sessions = BrokerSessions(session_timeout_ms)

    # --- what changes it ---------------------------------------------------------------------------------------------------------

    def load(self, image: MetadataImage, last_offset: int, now_ms: int) -> None:
        """What a log said up to and with this offset, when this node becomes the controller.

        Every broker that is not fenced gets a session from now on: nobody is fenced for what the controller missed (KAFKA-18138).
        """
        self.catalog.publish(image, difference(self.image, image))
        self.registered_at = dict.fromkeys(image.brokers, last_offset)
        for broker in image.brokers.values():
            self.sessions.register(broker.broker_id, fenced=broker.fenced)
            if not broker.fenced:
                self.sessions.touch(Contact(broker.broker_id, broker.epoch), now_ms)

    def carry_out(self, effects: Effects[MetadataRecord, ResponseT], base_offset: int) -> ImageChanges:
        """Makes true what was decided; what that changed. The first of its records has this offset in the log."""
        changes = self.catalog.apply(record for record in effects.records if not isinstance(record, _MARKS))
        for offset, record in enumerate(effects.records, base_offset):
            self._applied(record, offset)
        if isinstance(effects, SoftEffects):
            effects.settle(base_offset + len(effects.records) - 1)
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

    # --- what is asked of it -----------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The metadata, with everything that was carried out."""
        return self.catalog.image

    @property
    def metadata_level(self) -> int:
        """The level of `metadata.version`. Raises KeyError before there is one."""
        return self.image.metadata_level

    @property
    def has_elr(self) -> bool:
        """Whether the cluster uses eligible leader replicas (KIP-966)."""
        return self.image.features.get(ELR_VERSION, 0) >= 1

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """The broker, if it is registered with this epoch. Raises Rejected (STALE_BROKER_EPOCH)."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise Rejected(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise Rejected(ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
        return broker

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may lead and be in sync: it is registered, not fenced and does not shut down."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def topic_setting(self, topic: str, name: str) -> str:
        """What is in force of `MIN_ISR` or `UNCLEAN`: set on the topic, on this node, on all nodes, or in this node's settings.

        A text that is no value of the setting is passed over: Kafka's controller writes any that it is asked for itself.
        """
        own = str(self.settings.node_id)
        for kind, resource in (ResourceType.TOPIC, topic), (ResourceType.BROKER, own), (ResourceType.BROKER, CLUSTER_DEFAULT):
            text = self.catalog.configs(kind, resource).get(name)
            if text is not None and is_a_value(name, text):
                return text
        return str(self.settings.value(name))

    def min_isr(self, topic: TopicImage) -> int:
        """How many replicas of a partition have to be in sync: never more than there are (`getTopicEffectiveMinIsr`)."""
        return min(int(self.topic_setting(topic.name, MIN_ISR)), topic.replication_factor)

    def may_elect_uncleanly(self, topic: str) -> bool:
        """Whether a replica that may lack acknowledged records can lead where no other is left."""
        return self.topic_setting(topic, UNCLEAN).lower() == "true"


def is_a_value(name: str, text: str) -> bool:
    """Whether a broker's setting can be this."""
    try:
        parse_setting(name, text)
    except Rejected:
        return False
    return True
