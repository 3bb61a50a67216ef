"""Sends the registration, heartbeats and controlled shutdown of a broker to the cluster's controller, over one `ControllerChannel`.

`ottla.broker.cluster.life_cycle` decides which request is due; this module sends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.life_cycle import Incarnation, LifeCycle, LifecycleTimeouts, Request, Response, State, must_register_again
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.state_lines import StateLines
from ottla.broker.core.stored_settings import CORDONED
from ottla.broker.core.timers import TimerHandle
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel, ControllerUnreachable
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.uuids import random_uuid

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_MS = 300_000
"""How many milliseconds a controlled shutdown waits for the controller, as in Kafka."""


class StartupAborted(Exception):
    """Raised when the broker stops during its start: before it has applied the cluster's metadata, or before the controller has unfenced
    it. The exception's text gives the reason.
    """


class BrokerLifecycleManager:
    """Sends the registration, heartbeats and controlled shutdown of one broker incarnation to the controller.

    `published_offset` returns the last offset of the metadata log that this broker has applied. `on_registered` is called with the broker
    epoch of each registration, `on_lost` with the reason for which the process must end.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        incarnation: Incarnation,
        timeouts: LifecycleTimeouts,
        *,
        nursery: Nursery,
        published_offset: Callable[[], int],
        on_registered: Callable[[int], object],
        on_lost: Callable[[str], object],
    ) -> None:
        self._channel = channel
        self._incarnation = incarnation
        self._life = LifeCycle(incarnation, timeouts)
        self._nursery = nursery
        self._clock = nursery.clock
        self._published_offset = published_offset
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._lines = StateLines(logger, nursery.clock.mono_ms)
        self._timer: TimerHandle | None = None
        self.caught_up: asyncio.Future[None] = _milestone()
        """A future that completes when the controller confirms that this broker has applied the metadata up to its own registration. It
        fails with StartupAborted if the broker stops before."""
        self.unfenced: asyncio.Future[None] = _milestone()
        """A future that completes when the controller has unfenced this broker, which happens only after `ready_to_unfence`. It fails with
        StartupAborted if the broker stops before."""
        self._shutdown_allowed: asyncio.Future[None] = _milestone()

    @property
    def state(self) -> State:
        """The state of the broker in its life cycle, from NOT_RUNNING to SHUTTING_DOWN (Kafka's BrokerState)."""
        return self._life.state

    @property
    def broker_epoch(self) -> int:
        """The epoch of this incarnation's registration; -1 before it is registered."""
        return self._life.epoch

    def start(self) -> None:
        """Start to register the broker with the controller, and then to send heartbeats."""
        logger.info("Incarnation %s of broker %d is starting", self._incarnation.incarnation_id.hex(), self._incarnation.broker_id)
        self._nursery.at_close(self._end, self._end)
        self._life.start(self._clock.mono_ms())
        self._turn()

    def ready_to_unfence(self) -> None:
        """Ask the controller, in the next heartbeat, to unfence this broker. Call this when the broker has applied the metadata and can
        lead and follow partitions.
        """
        self._life.ready_to_unfence(self._clock.mono_ms())
        self._turn()

    def directory_failed(self, directory: bytes) -> None:
        """Report to the controller that the log directory with the id `directory` has failed. The broker must not serve that directory's
        partitions any more."""
        self._life.directory_failed(directory, self._clock.mono_ms())
        self._turn()

    def published(self, published: Published) -> None:
        """React to a metadata image that this broker has applied: update whether the broker's directories are cordoned (KIP-1066), and
        register again if the image's metadata.version requires it.
        """
        broker_id, changes = self._incarnation.broker_id, published.changes
        self._life.metadata_level = published.image.features.get(METADATA_VERSION, 0)
        own = published.image.configs.get((ResourceType.BROKER, str(broker_id)), {})
        # A broker has one log directory, so any entry, its path or "*", cordons it.
        self._life.cordon(bool(own.get(CORDONED)), self._clock.mono_ms())
        self._turn()
        if broker_id not in changes.brokers and METADATA_VERSION not in changes.features:
            return
        if must_register_again(published.image.metadata_level, published.image.brokers.get(broker_id)):
            self._life.register_again(self._clock.mono_ms())
            self._turn()

    async def controlled_shutdown(self, timeout_ms: int = CONTROLLED_SHUTDOWN_MS) -> bool:
        """Ask the controller to move this broker's leaderships to other brokers, and wait until that is done. Return False if it is not
        done within `timeout_ms`."""
        self._life.begin_controlled_shutdown(self._clock.mono_ms())
        self._turn()
        late = await wait_at_most(self._nursery.timers, self._clock, timeout_ms, [self._shutdown_allowed])
        if late:
            logger.error("The controller did not agree to this broker's shutdown in %d ms", timeout_ms)
        return not late

    def _end(self) -> None:
        """End the broker's life cycle: send no further request to the controller."""
        self._life.end()
        self._turn()

    def _turn(self) -> None:
        """Send the request that is due now, if any, and schedule the next call of this method. If a registration or the report of a failed
        directory was not answered within its timeout, call `on_lost`, because the process must end.
        """
        now_ms = self._clock.mono_ms()
        if (why := self._life.gives_up(now_ms)) is not None:
            logger.critical("Stopping: %s", why)
            self._life.end()
            self._on_lost(why)
        elif (request := self._life.next_request(now_ms, self._published_offset())) is not None:
            self._nursery.start(type(request).__name__.removesuffix("Request"), partial(self._ask, request))
        self._complete_milestones()
        if self._timer is not None:
            self._timer.cancel()
        times = [at for at in (self._life.due_ms, self._life.gives_up_ms) if at is not None]
        self._timer = self._nursery.timers.schedule(min(times), self._turn) if times else None

    async def _ask(self, request: Request) -> None:
        response: Response | None = None
        try:
            response = await self._channel.call(request)
        except (ControllerUnreachable, UnsupportedByPeer) as error:
            self._lines.report("unanswered", logging.WARNING, "%s was not answered: %s", type(request).__name__, error)
        before, epoch = self.state, self.broker_epoch
        self._life.handle_response(response, self._clock.mono_ms())
        if response is not None:
            self._note(request, response.error_code)
        if self.broker_epoch != epoch:
            self._on_registered(self.broker_epoch)
        if self.state is not before:
            logger.info("The broker is %s", self.state.name)
        self._turn()

    def _note(self, request: Request, error_code: int) -> None:
        """Log the result of a request to the controller. An error that repeats is logged rarely, not for each request, and once more when
        it ends.
        """
        self._lines.ended("unanswered", "The controller answers %s", type(request).__name__)
        if error_code != ErrorCode.NONE:
            self._lines.report("refused", logging.WARNING, "%s was refused: %s", type(request).__name__, ErrorCode.of(error_code).name)
            return
        self._lines.ended("refused", "The controller accepts %s", type(request).__name__)
        if isinstance(request, BrokerRegistrationRequest):
            logger.info("Registered with broker epoch %d", self.broker_epoch)

    def _complete_milestones(self) -> None:
        ended = self.state is State.SHUTTING_DOWN
        for milestone, reached in ((self.caught_up, State.RECOVERY), (self.unfenced, State.RUNNING)):
            if milestone.done():
                continue
            if ended:
                milestone.set_exception(StartupAborted("the broker ends"))
            elif self.state >= reached:
                milestone.set_result(None)
        if ended and not self._shutdown_allowed.done():
            self._shutdown_allowed.set_result(None)


def incarnation_of(
    settings: BrokerSettings,
    log_dir: LogDir,
    listeners: Sequence[Endpoint],
    random_bytes: Callable[[int], bytes],
    *,
    resumed_id: bytes | None = None,
) -> Incarnation:
    """Return the identity (incarnation) with which a starting broker registers. `listeners` are the advertised listeners with their actual
    ports. `resumed_id` is the incarnation id of a broker that was restored from a saved state and continues that incarnation; None for a
    new id.
    """
    return Incarnation(
        settings.node_id,
        log_dir.cluster_id,
        resumed_id or random_uuid(random_bytes),
        listeners,
        [log_dir.meta.directory_id],
        settings.broker_rack,
        log_dir.previous_broker_epoch,
        is_resumed=resumed_id is not None,
    )


def timeouts_of(settings: BrokerSettings) -> LifecycleTimeouts:
    """Return the interval of heartbeats and the timeouts of the registration and of the report of a failed log directory, from the
    settings.
    """
    return LifecycleTimeouts(
        settings.broker_heartbeat_interval_ms, settings.initial_broker_registration_timeout_ms, settings.log_dir_failure_timeout_ms
    )


def _milestone() -> asyncio.Future[None]:
    """Return a new future for one step of the broker's life cycle, such as its unfencing. If it fails and nothing retrieves the exception,
    asyncio logs no warning.
    """
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    made.add_done_callback(lambda done: done.cancelled() or done.exception())
    return made
