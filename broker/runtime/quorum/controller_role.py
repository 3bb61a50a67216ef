"""The controller role of a node: its metadata log, its state and its periodic work. The caller serves its requests and stops it.

Source: Kafka's ControllerServer, QuorumController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from ottla.broker.cluster.features import REGISTERED, Features
from ottla.broker.cluster.image import EMPTY, KRAFT_VERSION, ResourceType
from ottla.broker.cluster.image_changes import ImageChanges, unclean_elections
from ottla.broker.cluster.metadata_loader import Provenance, Published
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.record_versions import CONTROLLER_REGISTRATION
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID, ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.controller.activation import DEFAULT_BOOTSTRAP, activate
from ottla.broker.controller.delegation_tokens import remove_expired_tokens
from ottla.broker.controller.elect_leaders import balance_leaders, elect_unclean_leaders
from ottla.broker.controller.heartbeats import fence_stale
from ottla.broker.controller.registrations import register_controller
from ottla.broker.controller.state import SESSION_TIMEOUT, ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.quorum_addresses import voters
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.metadata_log import METADATA_LOG_CONFIG
from ottla.broker.runtime.nodes.snapshot_maker import SnapshotRhythm
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.quorum.cluster_decisions import ClusterDecisions
from ottla.broker.runtime.quorum.serving import QuorumServing
from ottla.broker.runtime.quorum.sole_voter import Identity, SoleVoter
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import Lateness
from ottla.broker.storage.files import Files
from ottla.broker.storage.formatting import bootstrap_records
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.meta_properties import random_id
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.raft_log import MetadataRetention
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest, Feature, Listener

UPKEEP_MS: Final = 60_000
_PLAINTEXT_ID: Final = 0
_SCANS: Final = 8
"""Checks for expired broker sessions per session timeout."""

logger = logging.getLogger(__name__)


class ControllerRole:
    """The controller of a single-voter quorum. `endpoints` are the controller listeners with their actual ports."""

    def __init__(
        self,
        settings: BrokerSettings,
        log_dir: LogDir,
        endpoints: Sequence[VoterEndpoint],
        *,
        nursery: Nursery,
        flusher: Flusher,
        files: Files,
        random: Random,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._settings, self._log_dir, self._nursery, self._flusher = settings, log_dir, nursery, flusher
        self._clock = clock = nursery.clock
        self._files, self._random = files, random
        self.newest = Published(EMPTY, Provenance(), ImageChanges())
        """The newest committed image that `followers` have received."""
        self.followers: list[Callable[[Published], object]] = []
        me = Identity(log_dir.cluster_id, settings.node_id, log_dir.meta.directory_id, endpoints)
        self.voter = SoleVoter(
            self._metadata_log(),
            me,
            is_named=bool(voters(settings.controller_quorum_voters)),
            clock=clock,
            flusher=flusher,
            on_published=self._published,
            retention=MetadataRetention(settings.metadata_max_retention_bytes, settings.metadata_max_retention_ms),
            rhythm=SnapshotRhythm(settings.metadata_log_max_record_bytes_between_snapshots, settings.metadata_log_max_snapshot_interval_ms),
        )
        self.serving = QuorumServing(self.voter, clock, nursery.timers)
        self.state = ControllerState(me.cluster_id, settings, random, [settings.node_id])
        self.active = ActiveController(self.state, self.voter, on_failure)
        self.decisions = ClusterDecisions(self.active, BrokerConfigs(settings, self.state.catalog))

    def _metadata_log(self) -> PartitionLog:
        key, settings = (CLUSTER_METADATA, 0), self._settings
        config = replace(
            METADATA_LOG_CONFIG, segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms
        )
        log = self._log_dir.logs.get(key) or self._log_dir.create_log(*key, METADATA_TOPIC_ID, config, at_once=True)
        log.config = config
        if log.topic_id == ZERO_ID:  # kafka-storage format writes no topic id
            self._log_dir.name_topic(log, METADATA_TOPIC_ID)
        return log

    # --- life --------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Become the quorum's leader and start to decide. Raises LogDirRefused, ProtocolError, OSError."""
        voter, state = self.voter, self.state
        voter.open()
        state.kraft_version = voter.quorum.kraft_version
        state.load(self.newest.image, voter.end_offset - 1, self._clock.mono_ms())
        self.decisions.broker_configs.refresh()
        bootstrap = bootstrap_records(self._files, self._log_dir.path) or DEFAULT_BOOTSTRAP
        await self.active.run(partial(activate, bootstrap=bootstrap, in_transaction=voter.in_transaction))
        await self._register()
        logger.info("Controller %d leads its quorum in epoch %d from offset %d on", voter.me.node_id, voter.epoch, voter.end_offset)
        self._scan = Lateness(self._clock, self._scan_ms)
        self._nursery.at_close(self._reject_readers, self._reject_readers)
        self._start_periodic_work()

    def _reject_readers(self) -> None:
        self.serving.stopping = True

    def _start_periodic_work(self) -> None:
        def repeat(name: str, interval_ms: int, decide: Callable[[ControllerState], Effects[MetadataRecord, bool]]) -> None:
            self._nursery.every(name, interval_ms, partial(self._while_there_is_more, decide))

        settings = self._settings
        self._nursery.every("fencing of silent brokers", self._scan_ms, self._fence_silent)
        self._nursery.every("upkeep of the metadata log", UPKEEP_MS, self._look_after_log)
        repeat("unclean elections", self._setting("unclean.leader.election.interval.ms"), elect_unclean_leaders)
        if settings.value("auto.leader.rebalance.enable"):
            repeat("leader rebalance", self._setting("leader.imbalance.check.interval.seconds") * 1_000, balance_leaders)
        if settings.delegation_token_secret_key:
            repeat(
                "expiry of delegation tokens",
                settings.delegation_token_expiry_check_interval_ms,
                lambda state: remove_expired_tokens(state.image, self._clock.now_ms()),
            )

    @property
    def _scan_ms(self) -> int:
        return self._setting(SESSION_TIMEOUT) // _SCANS

    def _setting(self, name: str) -> int:
        value = self._settings.value(name)
        assert isinstance(value, int)
        return value

    def features(self) -> Features:
        """Return the supported and finalized features, as ApiVersions reports them."""
        level, image = self.voter.quorum.kraft_version, self.newest.image
        levels = {**image.features, KRAFT_VERSION: level} if level else image.features
        return Features(REGISTERED, levels, self.newest.provenance.offset)

    def _published(self, published: Published) -> None:
        self.newest = published
        for topic, index, before in unclean_elections(published.changes):
            now = topic.partitions[index]
            line = "Unclean election: broker %d leads %s-%d in epoch %d. Records are lost that only the ISR %s or the ELR %s had"
            logger.warning(line, now.leader, topic.name, index, now.leader_epoch, list(before.isr), list(before.elr))
        if any(kind == ResourceType.BROKER for kind, _ in published.changes.configs):
            self.decisions.broker_configs.refresh()
        for follower in self.followers:
            follower(published)

    async def _register(self) -> None:
        """Register this node as a controller with its listeners and supported features, as Kafka's controllers do."""
        if self.state.metadata_level < CONTROLLER_REGISTRATION:
            return
        me = self.voter.me
        request = ControllerRegistrationRequest(
            controller_id=me.node_id,
            incarnation_id=random_id(self._random.randbytes),
            listeners=[Listener(at.name, at.host, at.port, _PLAINTEXT_ID) for at in me.endpoints],
            features=[Feature(name, low, high) for name, (low, high) in sorted(REGISTERED.items())],
        )
        await self.active.run(partial(register_controller, request=request))

    # --- periodic work -----------------------------------------------------------------------------------------------------------

    async def _fence_silent(self) -> None:
        now_ms = self._clock.mono_ms()
        self.state.sessions.not_listened(self._scan.ms(), now_ms)
        self._scan = Lateness(self._clock, self._scan_ms)
        while (contact := await self.active.run(partial(fence_stale, now_ms=now_ms))) is not None:
            logger.info("Broker %d (epoch %d) is fenced: its session timed out without a heartbeat", contact.broker_id, contact.epoch)

    async def _while_there_is_more(self, decide: Callable[[ControllerState], Effects[MetadataRecord, bool]]) -> None:
        while await self.active.run(decide):
            pass

    async def _look_after_log(self) -> None:
        log, now_ms = self.voter.raft_log, self._clock.now_ms()
        log.clean(now_ms)
        for remove in log.doomed(now_ms):
            await self._flusher.run(remove)
        await self._flusher.run(self._log_dir.recovery_point_checkpoint())  # recovery after a crash begins there
