"""The components that only a cluster broker needs. They follow the quorum's metadata log, register this broker with the controller, send
heartbeats, replicate partitions and propose ISR changes.

Start: the broker reads the metadata log and registers. When the controller confirms that the broker has read its own registration, the
broker applies the whole metadata, and from then on each change -> the rest of the broker is built -> the controller unfences the broker ->
connections are accepted.

Stop: the controller moves this broker's leaderships to other brokers, while clients are still served -> everything ends.

Source: Kafka's BrokerServer.startup, shutdown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from ottla.broker.api.context import Listener
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import REGISTERED, Features
from ottla.broker.cluster.image import EMPTY, KRAFT_VERSION
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.observer_state import Observer, ObserverLimits
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.core.role_settings import RACK_AWARE_SELECTOR, controllers
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.environment import Environment
from ottla.broker.net.links import NodeLinks
from ottla.broker.net.listeners import inter_broker_listener, registered_listeners
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.fetch_plan import FetchLimits
from ottla.broker.replication.throttle import Throttle, Throttles
from ottla.broker.runtime.coordination.other_brokers import OtherBrokers
from ottla.broker.runtime.metadata.cluster_broker_view import ClusterBrokerView
from ottla.broker.runtime.metadata.parts import MetadataParts
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.directory_assignments import DirectoryAssignments
from ottla.broker.runtime.nodes.envelopes import EnvelopeForwarding
from ottla.broker.runtime.nodes.life import BrokerLifecycleManager, StartupAborted, incarnation_of, timeouts_of
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.nodes.observer import MetadataObserver, ObserverSettings
from ottla.broker.runtime.nodes.peers import Peers
from ottla.broker.runtime.nodes.remote_topics import RemoteTopics
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.runtime.quorum.local_metadata import LocalMetadata
from ottla.broker.runtime.replicas.alter_partition_manager import AlterPartitionManager
from ottla.broker.runtime.replicas.fetchers import FetcherParameters, Fetchers
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.raft_log import METADATA_LOG_CONFIG, MetadataRetention

logger = logging.getLogger(__name__)

_FETCH_TIMEOUT_MS_MIN: Final = 1_000
"""The least time in milliseconds that an observer waits for the quorum leader, even if controller.quorum.fetch.timeout.ms is shorter. A
leader without new records answers a fetch only after half of this time."""

MIN_ISR: Final = "min.insync.replicas"

CHANNEL_MS: Final = 60_000
"""The milliseconds for which a forwarded request, or a report of log directories, is retried until a controller answers it. Kafka's
BrokerServer has the same limit for its channels "forwarding" and "directory-assignments"."""


class ClusterComponents:
    """The components that only a cluster broker needs, such as its registration and heartbeats. `on_lost` is called with the error that
    must end the process. `controller` is the controller role of the same process, None if the process is only a broker. `nursery` owns the
    components' background tasks and ends them."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        links: NodeLinks,
        *,
        nursery: Nursery,
        flusher: Flusher,
        log_dir: LogDir,
        listeners: Sequence[Listener],
        on_lost: Callable[[BaseException], None],
        controller: ControllerRole | None = None,
    ) -> None:
        self._settings, self._environment, self._nursery, self._log_dir, self._on_lost = settings, environment, nursery, log_dir, on_lost
        self._links = links
        self._catalog = Catalog()
        self._brokers = Brokers()
        self._throttles = _throttles(settings)
        configs = BrokerConfigs(settings, self._catalog)
        self._newest: Published | None = None
        self._joined = False
        self._channels: list[ControllerChannel] = []
        self._observer = self._make_observer(flusher) if controller is None else _local(controller, self._published, nursery)
        self._life = self._make_life(listeners)
        self._alter_partition_manager = AlterPartitionManager(
            self._channel("alter-partition", None), settings.node_id, self._brokers, nursery
        )
        self._fetchers = Fetchers(self._fetcher_parameters(flusher))
        racks = self._rack_of if settings.replica_selector_class == RACK_AWARE_SELECTOR else None
        context = ClusterContext(
            self._brokers, self._alter_partition_manager.submit, self._has, settings.replica_lag_time_max_ms, racks, self._throttles.leader
        )
        partitions = Partitions(flusher, environment.clock, context)
        self._publisher = Publisher(
            self._catalog,
            configs,
            log_dir=log_dir,
            partitions=partitions,
            flusher=flusher,
            nursery=nursery,
            brokers=self._brokers,
            throttles=self._throttles,
        )
        self._publisher.fetchers = self._fetchers
        forwarding = self._channel("forwarding", CHANNEL_MS)
        coordination = OtherBrokers(
            self._catalog, settings.node_id, lambda: Peers(links.to_broker, self.address_of, settings.request_timeout_ms), nursery
        )
        self._directories = self._make_directories()
        self._topics = RemoteTopics(forwarding, self._catalog, settings, lambda: self._brokers.own_epoch, nursery=nursery)
        self.parts = MetadataParts(
            self._catalog,
            configs,
            partitions,
            self._publisher,
            self._topics,
            ClusterBrokerView(self._catalog, partitions, settings.node_id, choose=environment.random.choice),
            self._features,
            forwarding=EnvelopeForwarding(forwarding),
            other_brokers=coordination,
        )

    # --- life --------------------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Register this broker with the controller, read the metadata log until it contains the registration, and apply that metadata.
        Raises ConnectionError if the broker cannot join the cluster."""
        self._observer.start()
        self._life.start()
        self._nursery.at_close(self._record_epoch, lambda: None)
        loggers = self.parts.broker_configs.loggers
        self._nursery.at_close(loggers.reset, loggers.reset)
        await _reached(self._life.caught_up)
        first = self._newest
        assert first is not None, "the controller reports this broker as caught up before it has published anything"
        self._joined = True
        await self._carry_out(Published(first.image, first.provenance, difference(EMPTY, first.image)))
        self._apply_min_in_sync()

    def _apply_min_in_sync(self) -> None:
        """Warn if this broker's `min.insync.replicas` has no effect.

        With eligible leader replicas (KIP-966) the metadata of a new cluster contains the controller's value as the default for all
        brokers. That value overrides the brokers' configuration files, and nothing else tells the user.
        """
        if (found := self.parts.broker_configs.overridden_static_value(MIN_ISR)) is not None:
            logger.warning(
                "%s=%s in this broker's static configuration has no effect: the cluster's metadata has %s. "
                "A new cluster stores the controller's own value, which overrides the brokers' files. "
                "To change it: kafka-configs --alter --entity-type brokers --entity-default --add-config %s=%s",
                *(MIN_ISR, *found, MIN_ISR, found[0]),
            )

    async def unfence(self) -> None:
        """Ask the controller to unfence this broker, and wait until the broker is unfenced. Raises ConnectionError if the broker cannot
        join the cluster."""
        self._life.ready_to_unfence()
        await _reached(self._life.unfenced)

    async def leave(self) -> None:
        """Perform a controlled shutdown (if controlled.shutdown.enable): wait until the controller has moved this broker's leaderships to
        other brokers, or a timeout has passed. Call it while clients are still served."""
        self._publisher.shutting_down = True
        if self._settings.controlled_shutdown_enable:
            await self._life.controlled_shutdown()

    def _record_epoch(self) -> None:
        """Copy the broker epoch of this registration to `log_dir`, which writes it to disk when it is closed cleanly."""
        self._log_dir.broker_epoch = self._life.broker_epoch

    def address_of(self, node: int) -> Node | None:
        """Return the address of another broker's inter-broker listener; None while the broker is unregistered or fenced."""
        broker = self._catalog.image.brokers.get(node)
        endpoint = None if broker is None or broker.fenced else broker.listeners.get(self._between_brokers)
        return None if endpoint is None else Node(node, endpoint.host, endpoint.port)

    # --- metadata ----------------------------------------------------------------------------------------------------------------

    async def _published(self, published: Published) -> None:
        """Apply a published metadata image if this broker has joined the cluster; before that, only store it. An old image lacks newer
        partitions, so applying it would rename the directories of these partitions as strays.
        """
        self._newest = published
        if self._joined:
            await self._carry_out(published)
        self._life.published(published)

    def _features(self) -> Features:
        level = self._observer.kraft_version
        levels = {**self._catalog.features, KRAFT_VERSION: level} if level else self._catalog.features
        return Features(REGISTERED, levels, self._observer.applied_offset)

    async def _carry_out(self, published: Published) -> None:
        await self._publisher.publish(published)
        self._directories.maybe_report(published.changes)

    def _look_for_controller(self) -> None:
        for channel in self._channels:
            channel.look_again()

    def _registered(self, epoch: int) -> None:
        self._brokers.own_epoch = epoch

    def _has(self, topic: str | bytes, index: int | None) -> bool:
        found = self._catalog.topic(topic) if isinstance(topic, str) else self._catalog.topic_by_id(topic)
        return found is not None and (index is None or index in found.partitions)

    def _rack_of(self, node: int) -> str | None:
        broker = self._catalog.image.brokers.get(node)
        return None if broker is None or broker.fenced else broker.rack

    # --- construction ------------------------------------------------------------------------------------------------------------

    @property
    def _between_brokers(self) -> str:
        return inter_broker_listener(self._settings)

    def _channel(self, name: str, retry_timeout_ms: int | None) -> ControllerChannel:
        channel = ControllerChannel(
            self._links.to_controller,
            lambda: self._observer.controller,
            clock=self._environment.clock,
            timers=self._nursery.timers,
            name=name,
            retry_timeout_ms=retry_timeout_ms,
            socket_timeout_ms=self._settings.controller_socket_timeout_ms,
        )
        self._channels.append(channel)
        self._nursery.at_close(channel.close, channel.close)
        return channel

    def _make_observer(self, flusher: Flusher) -> MetadataObserver:
        settings, meta = self._settings, self._log_dir.meta
        observer = MetadataObserver(
            self._metadata_log(),
            Observer(settings.node_id, meta.directory_id, meta.cluster_id),
            [Node(*address) for address in controllers(settings)],
            connect=self._links.to_controller,
            nursery=self._nursery,
            flusher=flusher,
            random=self._environment.random,
            on_published=self._published,
            truncation_checkpoint=self._log_dir.truncation_checkpoint,
            settings=_observer_settings(settings),
        )
        observer.on_controller = self._look_for_controller
        return observer

    def _metadata_log(self) -> PartitionLog:
        key = (CLUSTER_METADATA, 0)
        settings = self._settings
        config = replace(
            METADATA_LOG_CONFIG, segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms
        )
        log = self._log_dir.logs.get(key) or self._log_dir.create_log(*key, METADATA_TOPIC_ID, config, at_once=True)
        log.config = config
        return log

    def _make_life(self, listeners: Sequence[Listener]) -> BrokerLifecycleManager:
        settings, environment = self._settings, self._environment
        incarnation = incarnation_of(
            settings,
            self._log_dir,
            registered_listeners(settings, listeners),
            environment.random.randbytes,
            resumed_id=environment.incarnation_id,
        )
        return BrokerLifecycleManager(
            self._channel("heartbeat", _session_ms(settings) // 2),  # KAFKA-14392
            incarnation,
            timeouts_of(settings),
            nursery=self._nursery,
            published_offset=lambda: self._observer.applied_offset,
            on_registered=self._registered,
            on_lost=lambda why: self._on_lost(StartupAborted(why)),
        )

    def _make_directories(self) -> DirectoryAssignments:
        return DirectoryAssignments(
            self._channel("directory-assignments", CHANNEL_MS),
            self._catalog,
            self._settings.node_id,
            self._log_dir.meta.directory_id,
            lambda: self._brokers.own_epoch,
            nursery=self._nursery,
        )

    def _fetcher_parameters(self, flusher: Flusher) -> FetcherParameters:
        settings = self._settings
        return FetcherParameters(
            settings.node_id,
            self._brokers,
            self._links.to_leader,
            self.address_of,
            lambda: self._catalog.image.metadata_level,
            self._nursery,
            FetchLimits(
                settings.replica_fetch_wait_max_ms,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_fetch_max_bytes,
                settings.replica_fetch_backoff_ms,
            ),
            settings.request_timeout_ms,
            self._log_dir,
            flusher,
            settings.num_replica_fetchers,
            self._throttles.follower,
        )


def _local(controller: ControllerRole, on_published: Callable[[Published], Awaitable[None]], nursery: Nursery) -> LocalMetadata:
    from ottla.broker.runtime.quorum.local_metadata import LocalMetadata  # noqa: PLC0415 # only a process with a controller needs it

    return LocalMetadata(controller, on_published, nursery)


async def _reached(milestone: Awaitable[None]) -> None:
    try:
        await milestone
    except StartupAborted as error:
        raise ConnectionError(f"this broker could not join its cluster: {error}") from error


def _session_ms(settings: BrokerSettings) -> int:
    value = settings.value("broker.session.timeout.ms")
    assert isinstance(value, int)
    return value


def _throttles(settings: BrokerSettings) -> Throttles:
    windows, window_ms = settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1_000
    return Throttles(Throttle(windows, window_ms), Throttle(windows, window_ms))


def _observer_settings(settings: BrokerSettings) -> ObserverSettings:
    return ObserverSettings(
        min(settings.controller_quorum_request_timeout_ms, max(settings.controller_quorum_fetch_timeout_ms, _FETCH_TIMEOUT_MS_MIN)),
        settings.controller_listener_names[0].upper(),
        ObserverLimits(
            backoff_ms=settings.controller_quorum_retry_backoff_ms,
            fetch_max_bytes=settings.controller_quorum_fetch_max_bytes,
            snapshot_max_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
        ),
        MetadataRetention(settings.metadata_max_retention_bytes, settings.metadata_max_retention_ms),
        SnapshotPolicy(settings.metadata_log_max_record_bytes_between_snapshots, settings.metadata_log_max_snapshot_interval_ms),
    )
