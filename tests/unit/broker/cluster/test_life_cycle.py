from __future__ import annotations

import pytest

from ottla.broker.cluster.image import BrokerRegistration
from ottla.broker.cluster.life_cycle import MOVES, Incarnation, LifeCycle, LifecycleTimeouts, Request, State, must_register_again
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

DIRECTORY, OTHER = b"\x10" * 16, b"\x90" * 16
INTERVAL = 2_000
EPOCH = 77


class Driver:
    """A life cycle with its clock and a scripted controller, which checks that each request is due in exactly the expected millisecond."""

    def __init__(self, rack: str | None = None, previous_epoch: int = -1, *, is_resumed: bool = False) -> None:
        listeners = [Endpoint("PLAINTEXT", "h", 9092, 0)]
        incarnation = Incarnation(5, "cluster", b"\x07" * 16, listeners, [DIRECTORY, OTHER], rack, previous_epoch, is_resumed=is_resumed)
        self.life = LifeCycle(incarnation, LifecycleTimeouts(INTERVAL, 60_000, 30_000))
        self.now = 1_000
        self.life.start(self.now)

    def asks(self, after_ms: int = 0, offset: int = 10) -> Request:
        assert self.life.due_ms == self.now + after_ms
        assert self.life.next_request(self.now + after_ms - 1, offset) is None
        self.now += after_ms
        request = self.life.next_request(self.now, offset)
        assert request is not None
        assert self.life.next_request(self.now + INTERVAL, offset) is None
        return request

    def beats(self, after_ms: int = 0, offset: int = 10) -> BrokerHeartbeatRequest:
        request = self.asks(after_ms, offset)
        assert isinstance(request, BrokerHeartbeatRequest)
        return request

    def registers(self, after_ms: int = 0) -> BrokerRegistrationRequest:
        request = self.asks(after_ms)
        assert isinstance(request, BrokerRegistrationRequest)
        return request

    def hears(self, *, caught_up: bool = True, fenced: bool = True, stop: bool = False, error: ErrorCode = ErrorCode.NONE) -> None:
        answer = BrokerHeartbeatResponse(error_code=error, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop)
        self.life.handle_response(answer, self.now)

    def is_in(self, state: State) -> bool:
        return self.life.state is state

    def registered(self) -> Driver:
        self.registers()
        self.life.handle_response(BrokerRegistrationResponse(broker_epoch=EPOCH), self.now)
        return self

    def recovering(self) -> Driver:
        self.registered().beats()
        self.hears()
        return self

    def running(self) -> Driver:
        self.recovering().life.ready_to_unfence(self.now)
        self.beats()
        self.hears(fenced=False)
        return self


def test_every_state_has_defined_transitions_and_reaches_the_end() -> None:
    assert set(MOVES) == set(State)
    assert all(State.SHUTTING_DOWN in moves for state, moves in MOVES.items() if state is not State.SHUTTING_DOWN)


def test_a_registration_request_has_all_fields_in_kafkas_order() -> None:
    request = Driver(rack="r", previous_epoch=9).registers()
    assert (request.broker_id, request.cluster_id, request.incarnation_id, request.rack) == (5, "cluster", b"\x07" * 16, "r")
    assert [(at.name, at.host, at.port, at.security_protocol) for at in request.listeners] == [("PLAINTEXT", "h", 9092, 0)]
    assert request.log_dirs == [OTHER, DIRECTORY]
    assert request.previous_broker_epoch == 9
    assert {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features} == {
        "metadata.version": (7, 33),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
    }


def test_a_heartbeat_follows_the_registration_at_once() -> None:
    driver = Driver().registered()
    beat = driver.beats(offset=33)
    assert (beat.broker_id, beat.broker_epoch, beat.current_metadata_offset) == (5, EPOCH, 33)
    assert (beat.want_fence, beat.want_shut_down, beat.cordoned_log_dirs) == (True, False, None)
    assert driver.life.epoch == EPOCH


def test_a_caught_up_broker_reports_cordoned_directories_from_metadata_version_30() -> None:
    old, new = Driver(), Driver()
    old.life.metadata_level, new.life.metadata_level = 29, 30
    assert new.registered().beats().cordoned_log_dirs is None, "it has not read all settings yet"
    new.hears(caught_up=True)
    assert new.beats(10).cordoned_log_dirs == []
    old.registered().beats()
    old.hears(caught_up=True)
    assert old.beats(10).cordoned_log_dirs is None


@pytest.mark.parametrize("error", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.INCONSISTENT_CLUSTER_ID, None])
def test_a_failed_registration_is_retried_after_the_interval(error: ErrorCode | None) -> None:
    driver = Driver()
    first = driver.registers()
    driver.life.handle_response(None if error is None else BrokerRegistrationResponse(error_code=error), driver.now)
    assert driver.registers(INTERVAL) == first
    assert driver.is_in(State.STARTING)


def test_only_the_first_registration_times_out() -> None:
    driver = Driver()
    assert driver.life.gives_up_ms == driver.now + 60_000
    assert driver.life.gives_up(driver.now + 59_999) is None
    assert "initial.broker.registration.timeout.ms=60000" in str(driver.life.gives_up(driver.now + 60_000))
    assert driver.registered().life.gives_up_ms is None


def test_a_broker_sends_heartbeats_every_10_ms_until_it_has_caught_up() -> None:
    driver = Driver().registered()
    driver.beats()
    driver.hears(caught_up=False)
    driver.beats(10)
    assert driver.is_in(State.STARTING)
    driver.hears()
    assert driver.is_in(State.RECOVERY)
    assert driver.beats(10).want_fence


def test_a_resumed_incarnation_never_asks_to_be_fenced() -> None:
    driver = Driver(is_resumed=True).registered()
    assert not driver.beats().want_fence
    driver.hears(fenced=False)
    assert not driver.beats(10).want_fence
    driver.hears(fenced=False)
    assert driver.is_in(State.RUNNING)


def test_a_ready_broker_requests_unfencing_at_once() -> None:
    driver = Driver().recovering()
    driver.life.ready_to_unfence(driver.now)
    assert not driver.beats().want_fence
    driver.hears(fenced=True)
    assert driver.is_in(State.RECOVERY)
    driver.beats(INTERVAL)
    driver.hears(fenced=False)
    assert driver.is_in(State.RUNNING)
    driver.beats(INTERVAL)


def test_news_during_a_request_is_sent_after_its_response() -> None:
    driver = Driver().recovering()
    driver.beats(10)
    driver.life.ready_to_unfence(driver.now)
    driver.now += 700
    driver.hears()
    assert not driver.beats().want_fence


def test_a_failed_request_is_not_repeated_at_once() -> None:
    driver = Driver().recovering()
    driver.beats(10)
    driver.life.ready_to_unfence(driver.now)
    driver.hears(error=ErrorCode.NOT_CONTROLLER)
    assert not driver.beats(INTERVAL).want_fence


def test_a_fenced_or_stale_broker_continues_its_heartbeats() -> None:
    driver = Driver().running()
    driver.beats(INTERVAL)
    driver.hears(fenced=True)
    assert driver.is_in(State.RUNNING)
    driver.beats(INTERVAL)
    driver.hears(error=ErrorCode.STALE_BROKER_EPOCH)
    beat = driver.beats(INTERVAL)
    assert driver.is_in(State.RUNNING)
    assert (beat.broker_epoch, beat.want_fence) == (EPOCH, False)


def test_a_controlled_shutdown_is_requested_until_the_controller_agrees() -> None:
    driver = Driver().running()
    driver.life.begin_controlled_shutdown(driver.now)
    assert driver.beats().want_shut_down
    driver.hears(fenced=False)
    assert driver.beats(50).want_shut_down
    driver.hears(fenced=False)
    driver.beats(INTERVAL)
    driver.life.begin_controlled_shutdown(driver.now)
    assert driver.is_in(State.PENDING_CONTROLLED_SHUTDOWN)
    driver.hears(stop=True)
    assert (driver.life.state, driver.life.due_ms) == (State.SHUTTING_DOWN, None)


def test_a_broker_that_is_not_running_stops_without_a_request() -> None:
    driver = Driver().recovering()
    driver.life.begin_controlled_shutdown(driver.now)
    assert (driver.life.state, driver.life.due_ms) == (State.SHUTTING_DOWN, None)


def test_a_response_after_the_end_is_ignored() -> None:
    driver = Driver().running()
    driver.beats(INTERVAL)
    driver.life.end()
    driver.hears(fenced=False)
    assert (driver.life.state, driver.life.due_ms, driver.life.gives_up_ms) == (State.SHUTTING_DOWN, None, None)


def test_a_failed_directory_is_reported_at_once_and_in_every_heartbeat() -> None:
    driver = Driver().running()
    driver.life.directory_failed(OTHER, driver.now)
    assert driver.beats().offline_log_dirs == [OTHER]
    driver.hears(fenced=False)
    driver.life.directory_failed(DIRECTORY, driver.now)
    assert driver.beats().offline_log_dirs == [OTHER, DIRECTORY]


def test_a_failed_directory_that_cannot_be_reported_stops_the_broker() -> None:
    driver = Driver().running()
    driver.life.directory_failed(OTHER, driver.now)
    end = driver.now + 30_000
    driver.beats()
    driver.life.handle_response(None, driver.now)
    assert driver.life.gives_up(end - 1) is None
    assert "log.dir.failure.timeout.ms=30000" in str(driver.life.gives_up(end))
    driver.beats(INTERVAL)
    driver.hears(fenced=False)
    assert driver.life.gives_up(end) is None


def test_a_directory_that_fails_during_a_heartbeat_is_not_yet_reported() -> None:
    driver = Driver().running()
    driver.beats(INTERVAL)
    driver.life.directory_failed(OTHER, driver.now)
    driver.hears(fenced=False)
    assert driver.life.gives_up_ms == driver.now + 30_000
    assert driver.beats().offline_log_dirs == [OTHER]


def test_a_repeated_registration_keeps_the_incarnation_id() -> None:
    driver = Driver().running()
    driver.life.register_again(driver.now)
    assert driver.registers().incarnation_id == b"\x07" * 16
    driver.life.handle_response(BrokerRegistrationResponse(broker_epoch=EPOCH), driver.now)
    assert not driver.beats().want_fence
    assert (driver.life.state, driver.life.gives_up_ms) == (State.RUNNING, None)


@pytest.mark.parametrize(
    ("level", "directories", "again"), [(17, (), True), (16, (), False), (17, (DIRECTORY,), False), (30, (), True), (30, None, False)]
)
def test_only_a_registration_without_directories_is_repeated(level: int, directories: tuple[bytes, ...] | None, again: bool) -> None:
    def registration(known: tuple[bytes, ...]) -> BrokerRegistration:
        return BrokerRegistration(5, EPOCH, b"\x07" * 16, {}, {}, None, False, False, False, known, None)

    assert must_register_again(level, None if directories is None else registration(directories)) == again
