"""The controller of a cluster: `ControllerPart` is a controller inside any process, `ControllerNode` is a process of its own
(`process.roles=controller`).

Start: bind the listeners -> open the data directory -> lead the quorum -> accept connections. Stop: accept no connection and read no
further request -> answer requests in flight -> end -> close the log.

Source: Kafka's ControllerServer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.broker.api.authorizer import authorizer_of
from ottla.broker.api.context import Listener
from ottla.broker.api.controller_dispatch import ControllerDispatcher
from ottla.broker.api.quota_switch import apply_quotas, check_connection
from ottla.broker.api.routes import controller_routes, load
from ottla.broker.api.services import ControllerServices
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.core import limits
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import data_dir
from ottla.broker.core.timers import Timers
from ottla.broker.environment import Environment
from ottla.broker.net.connection import SharedConnectionState, connection_limits
from ottla.broker.net.listener_authentication import ListenerAuthentication
from ottla.broker.net.listeners import controller_listeners_of, endpoints_of
from ottla.broker.net.network import host_and_port
from ottla.broker.net.server import NO_AUTHENTICATION, Server
from ottla.broker.net.session import ByteBudget
from ottla.broker.process import StartError
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.errors import LogDirLocked, LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.errors import ProtocolError

logger = logging.getLogger("ottla.broker")


class ControllerPart:
    """A controller with its listeners, in a controller-only process or in a broker's process. `stop_at_once` is called with the error that
    must end the process."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        *,
        nursery: Nursery,
        flusher: Flusher,
        stop_at_once: Callable[[BaseException], None],
    ) -> None:
        self._role: ControllerRole | None = None
        self._settings, self._environment, self._nursery, self._flusher, self._stop_at_once = (
            settings,
            environment,
            nursery,
            flusher,
            stop_at_once,
        )
        self._timers = nursery.timers
        listeners = controller_listeners_of(settings)
        self._authentication = self._listener_authentication(listeners) if any(at.protocol for at in listeners) else NO_AUTHENTICATION
        self._server = Server(environment.network, listeners, settings.socket_listen_backlog_size)
        self._dispatcher: ControllerDispatcher

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that the controller's first listener is bound to."""
        first = self._server.listeners[0]
        return first.host or "0.0.0.0", first.port

    @property
    def role(self) -> ControllerRole:
        """The controller role (the quorum's leader and its state) that runs in this process. Raises AssertionError before the start."""
        assert self._role is not None, "the controller has not started"
        return self._role

    def bind(self) -> None:
        """Bind the controller's listeners, without accepting connections. Raises OSError if an address cannot be bound."""
        self._server.bind()
        self._nursery.at_close(self._server.close, self._server.abort)

    async def start(self, log_dir: LogDir) -> None:
        """Become the leader of the quorum and accept connections. Raises LogDirRefused or ProtocolError if the metadata log cannot be used,
        OSError if it cannot be read or written."""
        settings, environment = self._settings, self._environment
        self._role = role = ControllerRole(
            settings,
            log_dir,
            [VoterEndpoint(at.name, at.host, at.port) for at in endpoints_of(self._server.listeners)],
            nursery=self._nursery,
            flusher=self._flusher,
            files=environment.files,
            random=environment.random,
            on_failure=self._stop_at_once,
        )
        await role.start()
        services = ControllerServices(
            settings=settings,
            clock=environment.clock,
            timers=self._timers,
            turns=Turns(environment.clock),
            topics=role.state.catalog,
            features=role.features,
            broker_configs=role.broker_configs,
            random_bytes=environment.random.randbytes,
            stop_at_once=self._stop_at_once,
            authorizer=authorizer_of(settings, lambda: role.newest.image.acls, environment.clock),
            controller=role,
            compute=self._flusher.compute,
        )
        load(controller_routes())
        self._dispatcher = ControllerDispatcher(services, self._flusher.compute)
        self._apply_quotas(services)
        role.followers.append(lambda published: self._apply_quotas(services) if published.changes.client_quotas else None)
        if any(at_listener.tls is not None for at_listener in self._authentication.values()):
            self._follow_stores(role)
        budget = ByteBudget(settings.queued_max_request_bytes if settings.queued_max_request_bytes > 0 else limits.TOTAL_BUFFERED_BYTES)
        shared = SharedConnectionState(self._dispatcher, environment.clock, self._timers, settings.socket_request_max_bytes, budget)
        shared.max_connections = connection_limits(settings)
        shared.check_connection = lambda listener, host: check_connection(services, listener, host, for_brokers=False)
        self._nursery.at_close(self._stop_serving, self._abort)
        await self._server.start(shared, self._authentication)
        self._server.watch_idle(settings.connections_max_idle_ms)

    def _listener_authentication(self, listeners: Sequence[Listener]) -> Mapping[str, ListenerAuthentication]:
        """Return the security of each listener (TLS and SASL), by listener name. The SCRAM users and delegation tokens that a listener
        accepts are those in the metadata log (KIP-900)."""
        from ottla.broker.net.credentials import Credentials  # noqa: PLC0415 # only secured listeners need it
        from ottla.broker.net.listener_authentication import AuthenticationContext, listener_authentication  # noqa: PLC0415 # only secured listeners need it

        settings, random_bits = self._settings, self._environment.random.getrandbits
        credentials = Credentials(lambda: self.role.newest.image, settings.users, random_bits, settings.delegation_token_secret_key)
        return listener_authentication(
            settings, listeners, AuthenticationContext(credentials.find, random_bits, self._environment.clock, self._timers)
        )

    def _follow_stores(self, role: ControllerRole) -> None:
        from ottla.broker.net.store_changes import StoreChanges  # noqa: PLC0415 # only secured listeners need it

        changes, configs, me = (
            StoreChanges(self._settings, self._authentication, {}),
            role.broker_configs,
            str(self._settings.node_id),
        )
        changes.take(configs.of_this_broker())
        role.followers.append(
            lambda published: changes.take(configs.of_this_broker()) if me in published.changes.brokers_set else None,
        )

    def _apply_quotas(self, services: ControllerServices) -> None:
        apply_quotas(services, self._dispatcher, self.role.state.image.client_quotas)

    def _abort(self) -> None:
        """End pending requests without responses and close all connections at once."""
        self._server.abort()
        self._dispatcher.abort()

    async def _stop_serving(self) -> None:
        """Answer the requests in flight, for a bounded time."""
        self._server.close()
        self.role.serving.stopping = True
        late = await self._dispatcher.drain(limits.STOP_DRAIN_MS)
        if late:
            logger.warning("%d requests to the controller were not answered in time", late)
        await self._server.wait_closed(limits.STOP_DRAIN_MS)


class ControllerNode:
    """One controller process on the running asyncio event loop. After a fatal error, such as a failed fsync, the controller calls
    `exit_now(1)` to end the process at once; tests pass another function."""

    def __init__(
        self, settings: BrokerSettings, environment: Environment | None = None, exit_now: Callable[[int], object] = os._exit
    ) -> None:
        self.settings = settings
        self.environment = environment = environment or Environment()
        self.clock = environment.clock
        self.timers = Timers()
        self.log_dir: LogDir
        self._exit_now = exit_now
        self._driver = TimerDriver(self.timers, self.clock)
        self._nursery = Nursery(self.timers, self.clock, self.stop_at_once)
        self._flusher = Flusher(self.stop_at_once, environment.threads)
        self._part = ControllerPart(settings, environment, nursery=self._nursery, flusher=self._flusher, stop_at_once=self.stop_at_once)

    @property
    def role(self) -> ControllerRole:
        """The controller role (the quorum's leader and its state) that runs in this process. Raises AssertionError before the start."""
        return self._part.role

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that the controller's first listener is bound to."""
        return self._part.address

    async def start(self) -> None:
        """Start the controller and accept connections. If the start fails, close everything that was opened and unlock the data directory,
        then raise StartError or OSError."""
        try:
            self._part.bind()
            self.log_dir = log_dir = LogDir.open(
                data_dir(self.settings),
                self.settings,
                self.clock.now_ms(),
                files=self.environment.files,
                random_bytes=self.environment.random.randbytes,
                threads=self.environment.threads,
            )
            self._nursery.at_close(partial(log_dir.close, clean=True), partial(log_dir.close, clean=False))
            self._nursery.at_close(self._flusher.close, self._flusher.crash)
            self._driver.start()
            self._nursery.at_close(self._driver.stop, self._driver.stop)
            await self._part.start(log_dir)
        except (LogDirLocked, LogDirRefused, ProtocolError) as error:
            self._nursery.crash()
            raise StartError(str(error)) from error
        except BaseException:
            self._nursery.crash()
            raise

    @property
    def ports(self) -> list[int]:
        """A list with one item: the port of the first listener, to which other nodes and tools connect."""
        return [self.address[1]]

    def greeting(self) -> str:
        """Return the line that is printed after the start: address, data directory, and the ids of node and cluster."""
        return (
            f"Ottla's controller is listening on {host_and_port(*self.address)} (data in {self.log_dir.path}, "
            f"cluster id {self.log_dir.cluster_id}, node {self.settings.node_id})"
        )

    async def warm_up(self) -> None:
        """Do nothing. `run_node` calls this after the start, but a controller has already imported all its request handlers."""

    async def stop(self) -> None:
        """Stop cleanly, as at SIGTERM: accept no connection and read no further request, answer the requests in flight, close the log."""
        await self._nursery.stop()

    def crash(self) -> None:
        """Simulate SIGKILL, for tests: close sockets and files at once, and write nothing more."""
        self._nursery.crash()

    def stop_at_once(self, error: BaseException) -> None:
        """End the process at once because of `error`, for example a failed fsync, after which it is unknown which writes are on the disk.
        The next start recovers as after a crash."""
        logger.critical("Stopping at once: %s", error)
        logging.shutdown()
        self._exit_now(1)
        self._nursery.crash_soon()  # reached only with an `exit_now` that returns
