"""Decides which requests a broker of a cluster sends to its controller: registration, heartbeats, controlled shutdown (KIP-631).

Invariants:
- One request is in flight at a time. An urgent request is sent when the one in flight is answered, but never right after a failure.
- After an error the same request is repeated at the heartbeat interval, without limit. Only the first registration and the report
  of a failed directory have a timeout, after which the process ends.
- The field `is_fenced` of heartbeat responses counts only while the broker waits to be unfenced. Later the metadata says whether the broker
  is fenced.

Source: Kafka's `BrokerLifecycleManager`, `BrokerRegistrationTracker`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from ottla.broker.cluster.features import REGISTERED
from ottla.broker.cluster.image import BrokerRegistration
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.cluster.registrations import in_order_of_ids
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.registration import Feature, Listener

NO_EPOCH: Final = -1
_CATCHING_UP_MS: Final = 10
_FIRST_WAIT_TO_STOP_MS: Final = 50
_DIRECTORIES_LEVEL: Final = 17
"""metadata.version 3.7-IV2, the first at which a broker registers its directories."""
_CORDONED_LEVEL: Final = 30
"""metadata.version 4.3-IV0, the first at which a caught-up broker reports its cordoned directories (KIP-1066)."""


class State(IntEnum):
    """The state of a broker process: Kafka's `BrokerState`, with the same numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    """The broker registers with the controller, and reads the metadata log up to its own registration."""
    RECOVERY = 2
    """The broker has read the metadata log up to its registration and applies the metadata. After that it asks the controller to unfence
    it."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.NOT_RUNNING: frozenset({State.STARTING, State.SHUTTING_DOWN}),
    State.STARTING: frozenset({State.RECOVERY, State.SHUTTING_DOWN}),
    State.RECOVERY: frozenset({State.RUNNING, State.SHUTTING_DOWN}),
    State.RUNNING: frozenset({State.PENDING_CONTROLLED_SHUTDOWN, State.SHUTTING_DOWN}),
    State.PENDING_CONTROLLED_SHUTDOWN: frozenset({State.SHUTTING_DOWN}),
    State.SHUTTING_DOWN: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The identity with which one broker process registers. `incarnation_id` is random.

    `previous_epoch` is the broker epoch of the directory's last process if that was shut down cleanly, otherwise -1. With `is_resumed`, the
    controller knows this incarnation already, and the broker's heartbeats do not ask to be fenced (WantFence) while it catches up.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: Sequence[Endpoint]
    directories: Sequence[bytes]
    rack: str | None = None
    previous_epoch: int = NO_EPOCH
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: REGISTERED)
    is_resumed: bool = False

    def registration(self) -> BrokerRegistrationRequest:
        """Return the BrokerRegistration request of this incarnation."""
        return BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(at.name, at.host, at.port, at.security_protocol) for at in self.listeners],
            features=[Feature(name, low, high) for name, (low, high) in self.features.items()],
            rack=self.rack,
            log_dirs=list(in_order_of_ids(self.directories)),
            previous_broker_epoch=self.previous_epoch,
        )


@dataclass(frozen=True, slots=True)
class LifecycleTimeouts:
    """The intervals and timeouts of a broker's life cycle, in ms."""

    heartbeat_interval_ms: int = 2_000
    registration_timeout_ms: int = 60_000
    directory_timeout_ms: int = 30_000


Request = BrokerRegistrationRequest | BrokerHeartbeatRequest
Response = BrokerRegistrationResponse | BrokerHeartbeatResponse


class LifeCycle:
    """The life cycle of one broker process, as a state machine without I/O. Times are monotonic ms. The caller must check `due_ms` after
    every call.
    """

    def __init__(self, incarnation: Incarnation, timeouts: LifecycleTimeouts) -> None:
        self.state = State.NOT_RUNNING
        self.epoch = NO_EPOCH
        """The broker epoch from the response to the registration; NO_EPOCH before that response."""
        self.due_ms: int | None = None
        """The monotonic time (ms) at which the next request is due; None while a request is in flight, before the start and after the
        end."""
        self.metadata_level = 0
        """The level of metadata.version, according to the part of the metadata log that this broker has read."""
        self._incarnation = incarnation
        self._timeouts = timeouts
        self._registered = False
        self._ready = False
        self._under_way: Request | None = None
        self._at_once = False
        self._told_to_wait = False
        self._is_cordoned = False
        self._patience_ends_ms: int | None = None
        self._offline: dict[bytes, int | None] = {}
        """The ids of failed log directories, each with the monotonic time (ms) by which the controller must have received the report; None
        once it has."""

    def start(self, now_ms: int) -> None:
        """Begin the life cycle: the registration with the controller is due now, and must succeed within the registration timeout."""
        self._move(State.STARTING)
        self._patience_ends_ms = now_ms + self._timeouts.registration_timeout_ms
        self._ask_in(0, now_ms)

    # --- what the broker wants ---------------------------------------------------------------------------------------------------

    def ready_to_unfence(self, now_ms: int) -> None:
        """Ask the controller to unfence the broker. The caller has applied the metadata, so the broker can lead and follow its
        partitions."""
        self._ready = True
        self._ask_now(now_ms)

    def begin_controlled_shutdown(self, now_ms: int) -> None:
        """Ask the controller to move this broker's leaderships to others. If the broker is not running yet, end the life cycle at once."""
        if self.state is State.RUNNING:
            self._move(State.PENDING_CONTROLLED_SHUTDOWN)
            self._ask_now(now_ms)
        elif self.state is not State.PENDING_CONTROLLED_SHUTDOWN:
            self.end()

    def directory_failed(self, directory: bytes, now_ms: int) -> None:
        """Report the failed directory with every heartbeat from now on."""
        self._offline.setdefault(directory, now_ms + self._timeouts.directory_timeout_ms)
        if self._registered:
            self._ask_now(now_ms)

    def cordon(self, is_cordoned: bool, now_ms: int) -> None:
        """Report with the next heartbeats whether the broker's directories are cordoned, so that they get no new replicas (KIP-1066)."""
        if is_cordoned is self._is_cordoned:
            return
        self._is_cordoned = is_cordoned
        if self._registered:
            self._ask_now(now_ms)

    def register_again(self, now_ms: int) -> None:
        """Register again with the controller as the same incarnation; the broker epoch stays the same."""
        self._registered = False
        self._ask_now(now_ms)

    def end(self) -> None:
        """End the broker's life cycle: no further request is sent to the controller."""
        if self.state is not State.SHUTTING_DOWN:
            self._move(State.SHUTTING_DOWN)
        self.due_ms = None

    # --- requests to the controller -----------------------------------------------------------------------------------------------

    def next_request(self, now_ms: int, published_offset: int) -> Request | None:
        """Return the request that is due now, or None. `published_offset` is the last offset of the metadata log that this broker has
        applied.
        """
        if self._under_way is not None or self.due_ms is None or now_ms < self.due_ms:
            return None
        self.due_ms = None
        self._under_way = self._heartbeat(published_offset) if self._registered else self._incarnation.registration()
        return self._under_way

    def _heartbeat(self, published_offset: int) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._incarnation.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=published_offset,
            want_fence=not self._ready and not self._incarnation.is_resumed,
            want_shut_down=self.state is State.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=self._cordoned() if self.metadata_level >= _CORDONED_LEVEL and self.state >= State.RECOVERY else None,
        )

    def _cordoned(self) -> list[bytes]:
        return list(in_order_of_ids(self._incarnation.directories)) if self._is_cordoned else []

    def handle_response(self, response: Response | None, now_ms: int) -> None:
        """Handle the response to the request that `next_request` returned; `response` is None if the request failed or timed out."""
        request, self._under_way = self._under_way, None
        assert request is not None, "a response without a request"
        if self.state is State.SHUTTING_DOWN:
            return
        if response is None or response.error_code != ErrorCode.NONE:
            self._at_once = False
            self._ask_in(self._timeouts.heartbeat_interval_ms, now_ms)
        elif isinstance(response, BrokerRegistrationResponse):
            self.epoch = response.broker_epoch
            self._registered, self._patience_ends_ms = True, None
            self._ask_in(0, now_ms)
        else:
            assert isinstance(request, BrokerHeartbeatRequest)
            self._offline.update(dict.fromkeys(request.offline_log_dirs))
            self._heartbeat_answered(response, now_ms)

    def _heartbeat_answered(self, response: BrokerHeartbeatResponse, now_ms: int) -> None:
        wait_ms = self._timeouts.heartbeat_interval_ms
        match self.state:
            case State.STARTING:
                wait_ms = _CATCHING_UP_MS
                if response.is_caught_up:
                    self._move(State.RECOVERY)
            case State.RECOVERY:
                if not response.is_fenced:
                    self._move(State.RUNNING)
            case State.PENDING_CONTROLLED_SHUTDOWN:
                if response.should_shut_down:
                    self.end()
                    return
                if not self._told_to_wait:
                    self._told_to_wait, wait_ms = True, _FIRST_WAIT_TO_STOP_MS
            case _:
                pass
        self._ask_in(wait_ms, now_ms)

    # --- when to give up ---------------------------------------------------------------------------------------------------------

    @property
    def gives_up_ms(self) -> int | None:
        """The monotonic ms at which the process must end, because the first registration or the report of a failed directory then times
        out. None if neither is pending, or if the process is shutting down."""
        ends = [end for end in (self._patience_ends_ms, *self._offline.values()) if end is not None]
        return None if self.state is State.SHUTTING_DOWN else min(ends, default=None)

    def gives_up(self, now_ms: int) -> str | None:
        """Return why the process must end now, because the deadline `gives_up_ms` has passed; None if it has not."""
        end_ms = self.gives_up_ms
        if end_ms is None or now_ms < end_ms:
            return None
        if end_ms == self._patience_ends_ms:
            return f"not registered with a controller in initial.broker.registration.timeout.ms={self._timeouts.registration_timeout_ms}"
        return f"a failed directory was not reported to a controller in log.dir.failure.timeout.ms={self._timeouts.directory_timeout_ms}"

    # --- internals ---------------------------------------------------------------------------------------------------------------

    def _ask_now(self, now_ms: int) -> None:
        if self._under_way is not None:
            self._at_once = True
        elif self.state not in {State.NOT_RUNNING, State.SHUTTING_DOWN}:
            self._ask_in(0, now_ms)

    def _ask_in(self, wait_ms: int, now_ms: int) -> None:
        self.due_ms = now_ms if self._at_once else now_ms + wait_ms
        self._at_once = False

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], f"{self.state.name} -> {state.name}"
        self.state = state


def must_register_again(metadata_level: int, registration: BrokerRegistration | None) -> bool:
    """Return whether the broker's registration lacks directories, because metadata.version did not have them when it registered."""
    return registration is not None and metadata_level >= _DIRECTORIES_LEVEL and not registration.directories
