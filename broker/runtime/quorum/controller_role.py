"""The controller of a node with process.roles=controller or broker,controller: its metadata log, its state and its periodic work. The node
itself receives the requests of other nodes, passes them to the controller, and stops the controller.

Source: Kafka's ControllerServer, QuorumController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from ottla.broker.cluster.features import REGISTERED, Features
from ottla.broker.cluster.image import KRAFT_VERSION, ResourceType
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.record_versions import CONTROLLER_REGISTRATION
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.controller.activation import DEFAULT_BOOTSTRAP
from ottla.broker.controller.elect_leaders import balance_leaders, elect_unclean_leaders
from ottla.broker.controller.heartbeats import fence_stale
from ottla.broker.controller.registrations import register_controller
from ottla.broker.controller.state import SESSION_TIMEOUT
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.quorum.quorum_controller import QuorumController
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import Lateness
from ottla.broker.storage.files import Files
from ottla.broker.storage.formatting import bootstrap_records
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest
from ottla.protocol.messages.registration import Feature, Listener
from ottla.protocol.uuids import random_uuid

_PLAINTEXT_ID: Final = 0
_SCANS: Final = 8
"""How many times the controller checks for expired broker sessions during one broker.session.timeout.ms."""

logger = logging.getLogger(__name__)


class ControllerRole(QuorumController):
    """The controller of a single-voter quorum that other nodes use. In addition to the work of a `QuorumController`, it registers itself,
    fences silent brokers, and elects and rebalances leaders. `endpoints` are the controller listeners with their actual ports.
    """

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
        super().__init__(settings, log_dir, endpoints, nursery=nursery, flusher=flusher, random=random, on_failure=on_failure)
        self._files, self._random = files, random
        self.broker_configs = BrokerConfigs(settings, self.state.catalog)

    # --- life --------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Become the quorum's leader and begin to run decisions. Raises LogDirRefused if the metadata log names other voters than this node
        or its records contradict each other, ProtocolError if it is damaged, and OSError if it cannot be read or written.
        """
        self.open(bootstrap_records(self._files, self._log_dir.path) or DEFAULT_BOOTSTRAP)
        self.broker_configs.refresh()
        await self._register()
        await self.voter.commit()
        voter = self.voter
        logger.info("Controller %d leads its quorum in epoch %d from offset %d on", voter.me.node_id, voter.epoch, voter.end_offset)
        self._scan = Lateness(self._clock, self._scan_ms)
        self._nursery.at_close(self._reject_readers, self._reject_readers)
        self._start_periodic_work()

    def _reject_readers(self) -> None:
        self.serving.stopping = True

    def _start_periodic_work(self) -> None:
        settings = self._settings
        self._nursery.every("fencing of silent brokers", self._scan_ms, self.fence_silent)
        self.start_upkeep()
        self._repeat("unclean elections", self._setting("unclean.leader.election.interval.ms"), elect_unclean_leaders)
        if settings.value("auto.leader.rebalance.enable"):
            self._repeat("leader rebalance", self._setting("leader.imbalance.check.interval.seconds") * 1_000, balance_leaders)

    @property
    def _scan_ms(self) -> int:
        return self._setting(SESSION_TIMEOUT) // _SCANS

    def _setting(self, name: str) -> int:
        value = self._settings.value(name)
        assert isinstance(value, int)
        return value

    def features(self) -> Features:
        """Return the supported and finalized features of this node, for ApiVersions responses."""
        level, image = self.voter.quorum.kraft_version, self.newest.image
        levels = {**image.features, KRAFT_VERSION: level} if level else image.features
        return Features(REGISTERED, levels, self.newest.provenance.offset)

    def _published(self, published: Published) -> None:
        if any(kind == ResourceType.BROKER for kind, _ in published.changes.configs):
            self.broker_configs.refresh()
        super()._published(published)

    async def _register(self) -> None:
        """Register this node as a controller, with its listeners and supported features, as Kafka's controllers do."""
        if self.state.metadata_level < CONTROLLER_REGISTRATION:
            return
        me = self.voter.me
        request = ControllerRegistrationRequest(
            controller_id=me.node_id,
            incarnation_id=random_uuid(self._random.randbytes),
            listeners=[Listener(at.name, at.host, at.port, _PLAINTEXT_ID) for at in me.endpoints],
            features=[Feature(name, low, high) for name, (low, high) in sorted(REGISTERED.items())],
        )
        await self.active.run(partial(register_controller, request=request))

    # --- periodic work -----------------------------------------------------------------------------------------------------------

    async def fence_silent(self) -> None:
        """Fence the brokers whose sessions have timed out. Return when the fencing is committed."""
        now_ms = self._clock.mono_ms()
        self.state.sessions.extend_all(self._scan.ms(), now_ms)
        try:
            while (contact := await self.active.run(partial(fence_stale, now_ms=now_ms))) is not None:
                logger.info("Broker %d (epoch %d) is fenced: its session timed out without a heartbeat", contact.broker_id, contact.epoch)
        finally:
            # The next scan is due an interval after this one ends. A slow commit does not make it late: heartbeats arrive meanwhile.
            self._scan = Lateness(self._clock, self._scan_ms)
