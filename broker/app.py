"""The composition root: builds each component once, and starts and stops them in a fixed order.

Start: bind the listeners (a port that is in use is found before anything is changed) -> open the data directory: lock, recover -> replay
the metadata log and open the topics -> load groups and transactions -> start background work -> accept connections.

Stop (SIGTERM, SIGINT): accept no connection and read no further request -> release long polls and waiting group members -> answer requests
in flight, for a bounded time -> end background work, the newest first -> sync and close the logs, write the checkpoints and, last, the
clean-shutdown marker. A second signal, a signal during the start, or a failed fsync ends the process at once; the next start then recovers,
as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.api.context import Listener, Traffic
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.quota_switch import apply_quotas, check_connection
from ottla.broker.api.routes import Routes, broker_routes, standalone_routes
from ottla.broker.api.services import Services
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import data_dir
from ottla.broker.core.timers import Timers
from ottla.broker.environment import Environment
from ottla.broker.faults.disk import FillableFiles
from ottla.broker.faults.engine import Faults
from ottla.broker.net.connection import SharedConnectionState, connection_limits
from ottla.broker.net.listeners import inter_broker_listener, listeners_of, reachable_endpoints
from ottla.broker.net.network import host_and_port
from ottla.broker.net.server import NO_AUTHENTICATION, Server
from ottla.broker.net.session import ByteBudget
from ottla.broker.preopened_log_dir import PreopenedLogDir
from ottla.broker.process import Lifespan, StartError, run_node
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.txn_markers import LocalMarkers
from ottla.broker.runtime.coordination.txn_service import TxnService
from ottla.broker.runtime.coordination.txn_verification import TxnVerification
from ottla.broker.runtime.metadata.cluster_view import ClusterView
from ottla.broker.runtime.metadata.parts import MetadataParts
from ottla.broker.runtime.metadata.producer_ids import ProducerIds
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.metadata.standalone import StandaloneMetadata
from ottla.broker.runtime.metadata.streams_topics import StreamsTopics
from ottla.broker.runtime.quorum.sole_voter import ReadMetadata
from ottla.broker.runtime.replicas.fetch_purgatory import FetchPurgatory
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.share.share_services import share_services
from ottla.broker.runtime.upkeep.background import Background
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver, pause
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.errors import FsyncFailed, LogDirLocked, LogDirRefused
from ottla.broker.storage.fatal_files import FatalFiles
from ottla.broker.storage.files import Files
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from ottla.broker.api.authorizer import Authorizer
    from ottla.broker.api.local_forwarding import LocalForwarding
    from ottla.broker.cluster_broker import ClusterComponents
    from ottla.broker.controller_node import ControllerPart
    from ottla.broker.net.links import NodeLinks
    from ottla.broker.net.listener_authentication import ListenerAuthentication

logger = logging.getLogger("ottla.broker")


class Broker:
    """One broker on the running asyncio event loop. After a fatal error, such as a failed fsync, the broker calls `exit_now(1)` to end the
    process at once; tests pass another function."""

    def __init__(
        self, settings: BrokerSettings, faults: Faults, environment: Environment | None = None, exit_now: Callable[[int], object] = os._exit
    ) -> None:
        self.settings, self._settings_at_start = settings, copy(settings)
        self.environment = environment = environment or Environment()
        self.clock = environment.clock
        self.log_dir: LogDir
        self.services: Services
        self.ready_text: Callable[[str], str] | None = None
        """A function that takes the broker's address (`host:port`) and returns further text for the greeting, which is printed after the
        start; None for no further text."""
        self._faults = faults
        self._exit_now = exit_now
        self._build(listeners_of(settings))

    def _build(self, listeners: Sequence[Listener]) -> None:
        settings, environment = self.settings, self.environment
        self.timers = Timers()
        self.timers.on_error = lambda error: self.stop_at_once(error) if isinstance(error, FsyncFailed) else None
        self._driver = TimerDriver(self.timers, self.clock)
        self._nursery = Nursery(self.timers, self.clock, self.stop_at_once)
        self._flusher = Flusher(self.stop_at_once, environment.threads)
        self._authentication = self._listener_authentication(listeners) if any(at.protocol for at in listeners) else NO_AUTHENTICATION
        self._links = self._make_links() if settings.is_cluster_broker else None
        self._server = Server(environment.network, listeners, settings.socket_listen_backlog_size)
        self._cluster: ClusterComponents | None = None
        self.standalone: StandaloneMetadata | None = None
        """The metadata of a standalone node: its controller, and the components that apply the controller's decisions to the broker. None
        for a cluster broker."""
        self._metadata: ReadMetadata | None = None
        self._controller = self._own_controller() if settings.is_controller else None
        self._publisher: Publisher
        self._dispatcher: Dispatcher
        self._shared: SharedConnectionState

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that the broker's first listener is bound to."""
        first = self._server.listeners[0]
        return first.host or "0.0.0.0", first.port

    @property
    def ports(self) -> list[int]:
        """A list with one item: the port of the first listener, which is the one that the greeting names."""
        return [self.address[1]]

    def greeting(self) -> str:
        """Return the text that is printed after the start: the address, the data directory, the ids of the cluster and the node, and the
        number of partitions; then the text of `ready_text`, if there is one."""
        at = host_and_port(*self.address)
        return (
            f"Ottla is listening on {at} (data in {self.log_dir.path}, cluster id {self.services.cluster_id}, "
            f"node {self.settings.node_id}, {len(self.services.partitions)} partitions)"
        ) + ("" if self.ready_text is None else f"\n{self.ready_text(at)}")

    @property
    def _routes(self) -> Routes:
        return broker_routes(telemetry=self.settings.client_telemetry_enable, like=self.settings.release_behaviour)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._shared.connections)

    @property
    def connections_made(self) -> int:
        """The number of connections accepted since the start."""
        return self._shared.made

    @property
    def connections_by_listener(self) -> Mapping[str, int]:
        """The number of open connections by listener name."""
        return self._shared.per_listener

    @property
    def requests(self) -> dict[tuple[int, int], int]:
        """The number of requests since the start, by API key and version."""
        return self._dispatcher.requests

    @property
    def is_controller(self) -> bool:
        """Whether this process also contains a controller: it is a standalone node or has process.roles=broker,controller."""
        return self.standalone is not None or self._controller is not None

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered by all connections: partly read requests and unsent responses."""
        return self._shared.budget.used

    @property
    def waiting_requests(self) -> int:
        """The number of received requests without a response yet."""
        return self._dispatcher.waiting

    async def start(self, preopened: PreopenedLogDir | None = None) -> None:
        """Open the data directory, load its state and accept connections. `preopened` is the data directory, if it was opened before this
        call. If the start fails, close everything that was opened and unlock the data directory, then raise StartError or OSError."""
        try:
            self._server.bind()
            self._nursery.at_close(self._server.close, self._server.abort)
            if self._controller is not None:
                self._controller.bind()
            self.log_dir = log_dir = self._open_log_dir(preopened)
            self._nursery.at_close(partial(log_dir.close, clean=True), partial(log_dir.close, clean=False))
            self._nursery.at_close(self._flusher.close, self._flusher.crash)
            self._driver.start()
            self._nursery.at_close(self._driver.stop, self._driver.stop)
            if self._controller is not None:
                await self._controller.start(log_dir)
            self.services = await self._open_services()
            if self._cluster is not None:
                await self._cluster.unfence()
            await self._accept()
        except (LogDirLocked, LogDirRefused, ProtocolError) as error:
            self._nursery.crash()
            raise StartError(str(error)) from error
        except BaseException:
            self._nursery.crash()
            raise

    async def warm_up(self) -> None:
        """Import the request handlers that no request has needed yet, one per turn of the event loop, so that no later request waits for an
        import."""
        routes = [*self._routes.values(), *(standalone_routes().values() if self.standalone is not None else ())]
        for route in routes:
            _ = route.handle
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop the broker, as at SIGTERM: answer the requests in flight for a bounded time, then sync and close the logs. Requests that
        take longer get no response. A cluster broker first performs a controlled shutdown: the controller moves its leaderships to other
        brokers."""
        if self._cluster is not None:
            await self._cluster.leave()
        await self._nursery.stop()
        self._faults.drop_held()
        for line in self._faults.report():
            logger.info("Fault %s", line)

    async def _stop_serving(self) -> None:
        """Complete waiting requests early (long polls, and group members that wait in JoinGroup or SyncGroup), and answer the requests in
        flight for a bounded time."""
        self.accept_no_more()
        self.services.fetch_purgatory.release_all()
        self.services.groups.stop()
        self.services.txns.stop()
        self.services.share.stop()
        late = await self._dispatcher.drain(limits.STOP_DRAIN_MS)
        if late:
            logger.warning("%d requests were not answered in time", late)
        await self._server.wait_closed(limits.STOP_DRAIN_MS)

    def _abort(self) -> None:
        """End pending requests without responses and close all connections at once."""
        self.services.share.stop()
        self._server.abort()
        self._dispatcher.abort()
        self.services.groups.stop()
        self.services.txns.stop()

    def accept_no_more(self) -> None:
        """Begin a stop: accept no further connection and read no further request. Requests in flight are still answered."""
        self._server.close()

    def crash(self) -> None:
        """Simulate SIGKILL, for tests: close sockets and files at once, and write nothing more."""
        self._nursery.crash()
        self._faults.drop_held()

    async def save(self) -> None:
        """Write the complete state of a standalone node to its files. When this returns, the files contain the state that is in memory, and
        no request changes that state before the caller's next `await`. Raises RuntimeError for a cluster broker, or if a partition is
        offline."""
        if self.standalone is None:
            raise RuntimeError("a cluster broker has no state of its own: mark the cluster (InProcessCluster.mark)")
        await self.standalone.controller.voter.commit()
        await self.standalone.published()
        if not self.log_dir.save():
            raise RuntimeError(f"not all partitions in {self.log_dir.path} can be saved, because a disk error took one offline")

    def preopen(self, copy_of_mark: Path, now_ms: int) -> PreopenedLogDir:
        """Open the directory `copy_of_mark`, the copy of a saved state, which will replace the data directory when `start_again` is called.
        Return it opened. `now_ms` is the wall-clock time at which the broker will start on it. Any thread may call this. Raises
        LogDirRefused if the copy is no valid data directory, OSError if it cannot be read."""
        return PreopenedLogDir(copy(self._settings_at_start), self._faults, self.environment, copy_of_mark, now_ms)

    async def start_again(self, exchange: Callable[[], PreopenedLogDir | None]) -> None:
        """Return to a saved state: crash the broker, call `exchange`, and start the broker on the new data directory at the same ports.
        `exchange` replaces the data directory and returns the new one opened, or None if it was not opened yet. Raises the errors of
        `start` and of `exchange`; after an error the broker does not run."""
        listeners = self._server.listeners
        self.crash()
        preopened = exchange()
        self.settings = copy(self._settings_at_start)  # dynamic settings changed the other one
        self._build(listeners)
        await self.start(preopened)

    def stop_at_once(self, error: BaseException) -> None:
        """End the process at once because of `error`, for example a failed fsync, after which it is unknown which writes are on the disk.
        The next start recovers as after a crash."""
        logger.critical("Stopping at once: %s", error)
        logging.shutdown()
        self._exit_now(1)
        self._nursery.crash_soon()  # reached only with an `exit_now` that returns

    def _open_log_dir(self, preopened: PreopenedLogDir | None) -> LogDir:
        if preopened is not None and (activated := preopened.activate(self.settings, self.environment)) is not None:
            self._metadata = preopened.metadata
            return activated
        path, files = data_dir(self.settings), FillableFiles(self._faults, self.environment.files)
        files.apply_rules()
        if not self.settings.is_cluster_broker:
            return self._opened(path, files)
        watched = FatalFiles(path, files)
        log_dir = self._opened(path, watched)
        if log_dir.failed:
            log_dir.close(clean=False)
            raise LogDirRefused(f"not all partitions in {path} can be read: {sorted(log_dir.failed)}")
        watched.on_failure = self.stop_at_once
        return log_dir

    def _opened(self, path: Path, files: Files) -> LogDir:
        environment = self.environment
        return LogDir.open(
            path, self.settings, self.clock.now_ms(), files=files, random_bytes=environment.random.randbytes, threads=environment.threads
        )

    async def _open_services(self) -> Services:
        settings, clock, timers = self.settings, self.clock, self.timers
        metadata = await self._join() if settings.is_cluster_broker else self._open_alone()
        catalog, partitions, topics = metadata.catalog, metadata.partitions, metadata.topics
        cluster = metadata.view
        overrides_of = partial(catalog.configs, ResourceType.GROUP)
        others, turns = metadata.other_brokers, Turns(clock)
        groups = GroupService(
            settings,
            self._nursery,
            partitions,
            topics.ensure,
            cluster=cluster,
            overrides_of=overrides_of,
        )
        metadata.publisher.on_deleted.append(lambda topic: groups.forget_topic(topic.name, topic.topic_id))
        groups.shards.follow(metadata.publisher)
        share = share_services(metadata, settings, self._nursery, groups=groups, turns=turns)
        await groups.load()
        await share.load()
        producer_ids = ProducerIds(topics.allocate_producer_ids, self._nursery, local=self._cluster is None)
        markers = LocalMarkers(partitions, groups)
        txns = TxnService(
            settings,
            self._nursery,
            partitions,
            send_marker=markers.write_as_only_coordinator if others is None else others.markers(markers.write),
            producer_ids=producer_ids,
            create_topic=topics.ensure,
            catalog=catalog,
            faults=self._faults,
        )
        txns.shards.follow(metadata.publisher)
        metadata.publisher.on_quotas.append(self._apply_quotas)
        self._publisher = metadata.publisher
        await txns.load()
        traffic = Traffic()
        metadata.publisher.on_deleted.append(traffic.forget)
        return Services(
            settings=settings,
            clock=clock,
            timers=timers,
            turns=turns,
            cluster_id=self.log_dir.cluster_id,
            log_dir=self.log_dir,
            partitions=partitions,
            topics=catalog,
            cluster=cluster,
            topic_maker=topics,
            streams_topics=StreamsTopics(topics, self._nursery),
            broker_configs=metadata.broker_configs,
            features=metadata.features,
            forwarding=metadata.forwarding or self._to_own_controller(),
            groups=groups,
            markers=markers,
            txns=txns,
            txn_verification=TxnVerification(
                txns if others is None else others.txns(txns), pause=partial(pause, timers, clock), coordinator_is_local=others is None
            ),
            share=share,
            producer_ids=producer_ids,
            fetch_sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots, self._session_id),
            fetch_purgatory=FetchPurgatory(timers),
            flusher=self._flusher,
            random_bytes=self.environment.random.randbytes,
            stop_at_once=self.stop_at_once,
            listeners=self._server.listeners,
            traffic=traffic,
            authorizer=self._authorizer(catalog),
        )

    def _authorizer(self, catalog: Catalog) -> Authorizer | None:
        if not self.settings.authorizer_class_name and not self.settings.read_only:
            return None
        from ottla.broker.api.authorizer import authorizer_of  # noqa: PLC0415 # keeps it out of the start-up time without one

        return authorizer_of(self.settings, lambda: catalog.image.acls, self.clock)

    def _start_telemetry(self) -> None:
        from ottla.broker.api.client_telemetry import telemetry_of  # noqa: PLC0415 # keeps it out of the start-up time

        self.services.telemetry = telemetry_of(self.services, self._publisher.on_subscriptions)

    def _open_alone(self) -> MetadataParts:
        settings, partitions = self.settings, Partitions(self._flusher, self.clock)
        self.standalone = alone = StandaloneMetadata(
            self.log_dir,
            settings,
            nursery=self._nursery,
            flusher=self._flusher,
            partitions=partitions,
            random=self.environment.random,
            listeners=reachable_endpoints(self._server.listeners),
            on_failure=self.stop_at_once,
            read=self._metadata,
        )
        return MetadataParts(
            alone.catalog,
            alone.broker_configs,
            partitions,
            alone.publisher,
            alone.topics,
            ClusterView(alone.catalog, partitions, settings.node_id, settings.broker_rack),
            alone.features,
        )

    def _to_own_controller(self) -> LocalForwarding:
        from ottla.broker.api.local_forwarding import LocalForwarding  # noqa: PLC0415 # only a standalone node needs it

        assert self.standalone is not None, "a cluster broker forwards over the network"
        return LocalForwarding(self.standalone, lambda: self.services)

    def _listener_authentication(self, listeners: Sequence[Listener]) -> Mapping[str, ListenerAuthentication]:
        from ottla.broker.net.credentials import Credentials  # noqa: PLC0415 # only secured listeners need it
        from ottla.broker.net.listener_authentication import AuthenticationContext, listener_authentication  # noqa: PLC0415 # only secured listeners need it

        random_bits = self.environment.random.getrandbits
        secret = self.settings.delegation_token_secret_key
        credentials = Credentials(lambda: self.services.topics.image, self.settings.users, random_bits, secret)
        return listener_authentication(
            self.settings, listeners, AuthenticationContext(credentials.find, random_bits, self.clock, self.timers)
        )

    def _make_links(self) -> NodeLinks:
        from ottla.broker.net.links import links_of  # noqa: PLC0415 # only a cluster broker needs it

        environment = self.environment
        return links_of(
            self.settings,
            self._authentication,
            network=environment.network,
            clock=environment.clock,
            timers=self.timers,
            random=environment.random,
        )

    def _own_controller(self) -> ControllerPart:
        from ottla.broker.controller_node import ControllerPart  # noqa: PLC0415 # only a controller needs it

        return ControllerPart(self.settings, self.environment, nursery=self._nursery, flusher=self._flusher, stop_at_once=self.stop_at_once)

    async def _join(self) -> MetadataParts:
        from ottla.broker.cluster_broker import ClusterComponents  # noqa: PLC0415 # only a cluster broker needs it

        assert self._links is not None, "a standalone node joins no cluster"
        self._cluster = ClusterComponents(
            self.settings,
            self.environment,
            self._links,
            nursery=self._nursery,
            flusher=self._flusher,
            log_dir=self.log_dir,
            listeners=self._server.listeners,
            on_lost=self.stop_at_once,
            controller=None if self._controller is None else self._controller.role,
        )
        await self._cluster.join()
        return self._cluster.parts

    async def _accept(self) -> None:
        settings = self.settings
        self._dispatcher = Dispatcher(self.services, self._faults, self._routes, compute=self._flusher.compute)
        budget = ByteBudget(settings.queued_max_request_bytes if settings.queued_max_request_bytes > 0 else limits.TOTAL_BUFFERED_BYTES)
        self._shared = shared = SharedConnectionState(self._dispatcher, self.clock, self.timers, settings.socket_request_max_bytes, budget)
        shared.refused_by_script = self._faults.refuses_connection
        between_brokers = inter_broker_listener(settings) if len(self._server.listeners) > 1 else None
        shared.max_connections = connection_limits(settings, between_brokers)
        shared.check_connection = lambda listener, host: check_connection(
            self.services, listener, host, for_brokers=listener == between_brokers
        )
        self._apply_quotas()
        if settings.client_telemetry_enable:
            self._start_telemetry()
        if any(at_listener.tls is not None for at_listener in self._authentication.values()) or (
            self._links is not None and self._links.client_tls
        ):
            self._follow_stores()
        services = self.services
        Background(
            self._nursery, services.turns, settings, log_dir=self.log_dir, partitions=services.partitions, flusher=self._flusher
        ).start()
        self._nursery.at_close(self._stop_serving, self._abort)
        await self._server.start(shared, self._authentication)
        self._server.watch_idle(settings.connections_max_idle_ms)

    def _follow_stores(self) -> None:
        from ottla.broker.net.store_changes import StoreChanges  # noqa: PLC0415 # only secured listeners need it

        keys = {} if self._links is None else self._links.client_tls
        changes, configs = StoreChanges(self.settings, self._authentication, keys), self.services.broker_configs

        def take() -> None:
            changes.take(configs.of_this_broker())

        take()
        configs.check_stores = changes.check
        self._publisher.on_settings.append(take)

    def _apply_quotas(self) -> None:
        apply_quotas(self.services, self._dispatcher, self.services.topics.image.client_quotas, self.services.fetch_sessions)

    def _session_id(self) -> int:
        return self.environment.random.randrange(1, 2**31)


def run(
    settings: BrokerSettings,
    faults: Faults,
    port_file: Path | None = None,
    *,
    clock: Clock | None = None,
    lifespan: Lifespan[Broker] | None = None,
    ready_text: Callable[[str], str] | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> int:
    """Run a broker until a signal stops it, and return the exit code. Raises StartError.

    The broker's ports are written to `port_file`. `clock` replaces the system clock. `lifespan` returns a context manager for work beside
    the broker, such as an admin port. `ready_text` takes the broker's address and returns further text for the greeting, which is printed
    after the start. `prepare` is called when settings and security are known to be valid, before anything is read or written.
    """

    def make() -> Broker:
        broker = Broker(settings, faults, Environment(clock or Clock()))
        broker.ready_text = ready_text
        prepare()
        return broker

    return run_node(make, port_file, lifespan)
