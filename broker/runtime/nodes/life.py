"""Drives a member's life: registration, heartbeats and controlled shutdown, through one channel to the controller.

What is said when is `ottla.broker.cluster.life_cycle`'s to decide.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.life_cycle import Incarnation, LifeCycle, Pace, Request, Response, State, must_register_again
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.state_lines import StateLines
from ottla.broker.core.stored_settings import CORDONED
from ottla.broker.core.timers import TimerHandle, Timers
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel, ControllerUnreachable
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.meta_properties import random_id
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_MS = 300_000
"""How long a stop waits for the controller, as Kafka's."""


class LifeOver(Exception):
    """The broker ended before it was caught up, or unfenced; the text says why."""


class BrokerLife:
    """One incarnation. `published_offset` tells up to which metadata was published here; `on_registered` is told the broker epoch.

    `on_lost` is told why the broker cannot live any longer: it has to end its process.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        incarnation: Incarnation,
        pace: Pace,
        *,
        clock: Clock,
        timers: Timers,
        published_offset: Callable[[], int],
        on_registered: Callable[[int], object],
        on_lost: Callable[[str], object],
    ) -> None:
        self._channel = channel
        self._incarnation = incarnation
        self._life = LifeCycle(incarnation, pace)
        self._clock = clock
        self._timers = timers
        self._published_offset = published_offset
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._lines = StateLines(logger, clock.mono_ms)
        self._timer: TimerHandle | None = None
        self._call: asyncio.Task[None] | None = None
        self.caught_up: asyncio.Future[None] = _milestone()
        """Done when the controller says that metadata was published here up to this incarnation's registration. Raises LifeOver."""
        self.unfenced: asyncio.Future[None] = _milestone()
        """Done when the controller lets clients come, which is after `ready_to_unfence`. Raises LifeOver."""
        self._over: asyncio.Future[None] = _milestone()

    @property
    def state(self) -> State:
        """Where the broker is in its life."""
        return self._life.state

    @property
    def broker_epoch(self) -> int:
        """Of this incarnation; -1 before it is registered."""
        return self._life.epoch

    def start(self) -> None:
        """Begin to register."""
        logger.info("Incarnation %s of broker %d is starting", self._incarnation.incarnation_id.hex(), self._incarnation.broker_id)
        self._life.start(self._clock.mono_ms())
        self._turn()

    def ready_to_unfence(self) -> None:
        """What metadata says of this broker is carried out: it can lead and follow."""
        self._life.ready_to_unfence(self._clock.mono_ms())
        self._turn()

    def directory_failed(self, directory: bytes) -> None:
        """Nothing of the directory with this id is served any more."""
        self._life.directory_failed(directory, self._clock.mono_ms())
        self._turn()

    def published(self, published: Published) -> None:
        """Metadata was published: whether this broker has to register once more."""
        broker_id, changes = self._incarnation.broker_id, published.changes
        self._life.metadata_level = published.image.features.get(METADATA_VERSION, 0)
        own = published.image.configs.get((ResourceType.BROKER, str(broker_id)), {})
        self._life.cordon(bool(own.get(CORDONED)), self._clock.mono_ms())  # its only entries are the one directory and *
        self._turn()
        if broker_id not in changes.brokers and METADATA_VERSION not in changes.features:
            return
        if must_register_again(published.image.metadata_level, published.image.brokers.get(broker_id)):
            self._life.register_again(self._clock.mono_ms())
            self._turn()

    async def controlled_shutdown(self, timeout_ms: int = CONTROLLED_SHUTDOWN_MS) -> bool:
        """Asks the controller to move what this broker leads, and waits until it has. Returns whether it had in time."""
        self._life.begin_controlled_shutdown(self._clock.mono_ms())
        self._turn()
        late = await wait_at_most(self._timers, self._clock, timeout_ms, [self._over])
        if late:
            logger.error("The controller did not agree to this broker's shutdown in %d ms", timeout_ms)
        return not late

    def stop(self) -> None:
        """Ask nothing any more; the channel is closed."""
        self._life.end()
        self._turn()
        if self._call is not None:
            self._call.cancel()
        self._channel.close()

    def _turn(self) -> None:
        """Do what is to be done now, and come back when there is more."""
        now_ms = self._clock.mono_ms()
        if (why := self._life.gives_up(now_ms)) is not None:
            logger.critical("Stopping: %s", why)
            self._life.end()
            self._on_lost(why)
        elif (request := self._life.next_request(now_ms, self._published_offset())) is not None:
            self._call = asyncio.get_running_loop().create_task(self._ask(request))
        self._tell()
        if self._timer is not None:
            self._timer.cancel()
        times = [at for at in (self._life.due_ms, self._life.gives_up_ms) if at is not None]
        self._timer = self._timers.schedule(min(times), self._turn) if times else None

    async def _ask(self, request: Request) -> None:
        response: Response | None = None
        try:
            response = await self._channel.call(request)
        except (ControllerUnreachable, UnsupportedByPeer) as error:
            self._lines.holds("unanswered", logging.WARNING, "%s was not answered: %s", type(request).__name__, error)
        before, epoch = self.state, self.broker_epoch
        self._life.answered(response, self._clock.mono_ms())
        if response is not None:
            self._note(request, response.error_code)
        if self.broker_epoch != epoch:
            self._on_registered(self.broker_epoch)
        if self.state is not before:
            logger.info("The broker is %s", self.state.name)
        self._turn()

    def _note(self, request: Request, error_code: int) -> None:
        """Log what a response means, a state that lasts once."""
        self._lines.over("unanswered", "The controller answers %s", type(request).__name__)
        if error_code != ErrorCode.NONE:
            self._lines.holds("refused", logging.WARNING, "%s was refused: %s", type(request).__name__, ErrorCode.of(error_code).name)
            return
        self._lines.over("refused", "The controller accepts %s", type(request).__name__)
        if isinstance(request, BrokerRegistrationRequest):
            logger.info("Registered with broker epoch %d", self.broker_epoch)

    def _tell(self) -> None:
        ended = self.state is State.SHUTTING_DOWN
        for milestone, reached in ((self.caught_up, State.RECOVERY), (self.unfenced, State.RUNNING)):
            if milestone.done():
                continue
            if ended:
                milestone.set_exception(LifeOver("the broker ends"))
            elif self.state >= reached:
                milestone.set_result(None)
        if ended and not self._over.done():
            self._over.set_result(None)


def incarnation_of(
    settings: BrokerSettings, log_dir: LogDir, listeners: Sequence[Endpoint], random_bytes: Callable[[int], bytes]
) -> Incarnation:
    """What a process that begins now says of itself; `listeners` are those that it advertises, with the ports that it has."""
    return Incarnation(
        settings.node_id,
        log_dir.cluster_id,
        random_id(random_bytes),
        listeners,
        [log_dir.meta.directory_id],
        settings.broker_rack,
        log_dir.previous_broker_epoch,
    )


def pace_of(settings: BrokerSettings) -> Pace:
    """The times of a life, as they are set."""
    return Pace(settings.broker_heartbeat_interval_ms, settings.initial_broker_registration_timeout_ms, settings.log_dir_failure_timeout_ms)


def _milestone() -> asyncio.Future[None]:
    """One that nobody may wait for."""
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    made.add_done_callback(lambda done: done.cancelled() or done.exception())
    return made
