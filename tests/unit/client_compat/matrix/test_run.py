"""A cell of the matrix has one of four outcomes, whatever its scenario, program or broker do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from client_compat.matrix import clients
from client_compat.matrix.brokers import OURS, TANSU
from client_compat.matrix.clients import ClientKind, Language
from client_compat.matrix.control import ClientError, Unsupported
from client_compat.matrix.outcomes import Cell, Outcome
from client_compat.matrix.pool import Lease, Pool
from client_compat.matrix.run import Job, Matrix, SharedBrokers, brokers_of, chosen
from client_compat.matrix.scenario import Scenario, ScenarioContext, expect, in_parallel, same
from tests.support import fake_program

RunOne = Callable[..., Cell]
FAKE = "fake"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBrokers]:
    with SharedBrokers(tmp_path_factory.mktemp("brokers")) as shared:
        yield shared


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    command = [sys.executable, str(fake_program.__file__)]
    monkeypatch.setitem(clients.CLIENTS, FAKE, ClientKind(FAKE, Language(FAKE), lambda: command))  # type: ignore[arg-type]  # a dict underneath
    monkeypatch.setitem(clients.CLIENTS, "none", ClientKind("none", Language("none", ("no-such-tool",), "get it"), lambda: command))  # type: ignore[arg-type]  # as above
    with Pool(tmp_path) as started:
        yield started


@pytest.fixture
def run_one(tmp_path: Path, pool: Pool, brokers: SharedBrokers) -> RunOne:
    matrix = Matrix(tmp_path, pool, brokers, ())

    def run(scenario: Callable[[ScenarioContext], None], client: str = FAKE, broker: str = OURS, **needs: object) -> Cell:
        return matrix.run_cell(client, Scenario("s", "area", "It holds.", scenario, **needs), broker)  # type: ignore[arg-type]  # fields by name

    return run


def unsupported(context: ScenarioContext) -> None:
    raise Unsupported("it has none")


def refused(context: ScenarioContext) -> None:
    raise ClientError("NOT_COORDINATOR", "ask elsewhere")


def misshapen(context: ScenarioContext) -> None:
    context.client.consumer().poll(1)


def dies(context: ScenarioContext) -> None:
    context.client.program.call("die")


@pytest.mark.parametrize(
    ("scenario", "outcome", "reason"),
    [
        (lambda context: None, Outcome.PASS, ""),
        (unsupported, Outcome.UNSUPPORTED, "it has none"),
        (refused, Outcome.FAIL, "NOT_COORDINATOR: ask elsewhere"),
        (lambda context: expect(False, "nothing is right"), Outcome.FAIL, "nothing is right"),
        (misshapen, Outcome.FAIL, "did not answer consumer.open, but wrote"),
        (dies, Outcome.FAIL, "ended with 3"),
    ],
)
def test_scenarios_end_determines_its_cells_outcome(
    run_one: RunOne, scenario: Callable[[ScenarioContext], None], outcome: Outcome, reason: str
) -> None:
    cell = run_one(scenario)
    assert (cell.outcome, cell.scenario, cell.broker) == (outcome, "area/s", OURS)
    assert reason in cell.reason


def test_missing_toolchain_skips_the_cell_and_names_what_to_install(run_one: RunOne) -> None:
    cell = run_one(lambda context: None, client="none")
    assert (cell.outcome, cell.reason) == (Outcome.SKIPPED, "no no-such-tool here (get it)")


def test_outdated_toolchain_skips_the_cell_with_its_own_message(run_one: RunOne, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Language("go", (sys.executable,), "get a newer one", probe=(sys.executable, "-c", "raise SystemExit('it wants 9.9')"))
    monkeypatch.setitem(clients.CLIENTS, FAKE, replace(clients.CLIENTS[FAKE], language=old))  # type: ignore[arg-type]  # a dict underneath
    cell = run_one(lambda context: None, client=FAKE)
    assert (cell.outcome, cell.reason) == (Outcome.SKIPPED, f"{sys.executable} is too old here: it wants 9.9 (get a newer one)")


def test_a_missing_python_skips_the_cells_of_an_older_library(run_one: RunOne, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Language("library-1.0", (), "get it", pythons=("2.99",), pins=("library==1.0",))
    monkeypatch.setitem(clients.CLIENTS, "library-1.0", replace(clients.CLIENTS[FAKE], language=old))  # type: ignore[arg-type]  # a dict underneath
    cell = run_one(lambda context: None, client="library-1.0")
    assert (cell.outcome, cell.reason) == (Outcome.SKIPPED, "no Python 2.99 here (get it)")


def test_durable_scenario_is_unsupported_on_a_broker_without_durability(run_one: RunOne) -> None:
    assert run_one(lambda context: None, broker=TANSU, durable=True, own_broker=True).outcome is Outcome.UNSUPPORTED


def test_program_is_reused_after_a_passed_cell_only(run_one: RunOne) -> None:
    used: list[object] = []

    def note(context: ScenarioContext) -> None:
        used.append(context.client.program)

    def note_and_fail(context: ScenarioContext) -> None:
        note(context)
        raise ClientError("X")

    for scenario in (note, note, note_and_fail, note):
        run_one(scenario)
    first, second, third, fourth = used
    assert first is second is third
    assert fourth is not first


def test_build_time_of_another_client_does_not_count_against_the_cell(tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def build(out: Path) -> Sequence[Sequence[str]]:
        nonlocal now
        now += 1_000.0
        return []

    monkeypatch.setattr(clients, "CACHE", tmp_path)
    monkeypatch.setitem(clients.CLIENTS, "built", replace(clients.CLIENTS[FAKE], language=Language("built", build=build)))  # type: ignore[arg-type]  # a dict underneath
    lease = Lease(pool, (), timeout_s=10.0, clock=lambda: now)
    one = lease.take(FAKE)
    assert one.deadline == 110.0
    another = lease.take("built")
    assert (one.deadline, another.deadline) == (1_110.0, 1_110.0)
    lease.end(usable=False)


def test_a_scenarios_own_broker_has_its_settings_and_can_be_restarted(run_one: RunOne) -> None:
    def restart(context: ScenarioContext) -> None:
        topic = context.topic()
        context.truth.write_values(topic, [b"kept"])
        context.broker.kill()
        context.broker.start()
        context.truth.wait_until_led(topic)
        same(context.truth.values(topic), [b"kept"], "values")

    assert run_one(restart, own_broker=True, settings={"auto.create.topics.enable": "false"}).outcome is Outcome.PASS


def test_every_job_returns_its_cell(tmp_path: Path, pool: Pool, brokers: SharedBrokers) -> None:
    scenarios = [Scenario(f"s{number}", "area", "It holds.", lambda context: None) for number in range(4)]
    reported: list[Cell] = []
    cells = Matrix(tmp_path, pool, brokers, ()).run([Job(FAKE, one, (OURS,)) for one in scenarios], 2, reported.append)
    assert {cell.scenario for cell in cells} == {f"area/s{number}" for number in range(4)}
    assert reported == cells


def test_first_error_of_parallel_calls_is_raised_after_all_ended() -> None:
    ended: list[int] = []

    def fail() -> None:
        raise ClientError("X")

    with pytest.raises(ClientError):
        in_parallel(fail, lambda: ended.append(1))
    assert ended == [1]


def test_two_lists_are_shown_from_the_first_difference() -> None:
    with pytest.raises(AssertionError, match=r"values, 3 against 3, from the first that differs \(1\): \[9, 3\], where \[2, 3\]"):
        same([1, 9, 3], [1, 2, 3], "values")


def test_names_are_selected_by_part_or_all_without_a_word() -> None:
    assert chosen(["java", "java-2.8", "kcat"], ["java"]) == ["java", "java-2.8"]
    assert chosen(["java", "kcat"], []) == ["java", "kcat"]


def test_jobs_of_a_client_that_uses_every_core_run_one_at_a_time(
    tmp_path: Path, pool: Pool, brokers: SharedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = clients.CLIENTS[FAKE]
    monkeypatch.setitem(clients.CLIENTS, FAKE, replace(kind, language=replace(kind.language, busy=True)))  # type: ignore[arg-type]  # a dict underneath
    alone = threading.Lock()

    def work(context: ScenarioContext) -> None:
        expect(alone.acquire(blocking=False), "another one is at work")
        try:
            context.truth.create_topic(context.name())
        finally:
            alone.release()

    jobs = [Job(FAKE, Scenario(f"s{number}", "area", "It holds.", work), (OURS,)) for number in range(8)]
    cells = Matrix(tmp_path, pool, brokers, ()).run(jobs, 4, lambda cell: None)
    assert {cell.outcome for cell in cells} == {Outcome.PASS}


def test_imitated_older_releases_run_only_clients_of_their_age_unless_named() -> None:
    everywhere = (OURS, "ottla-3.3", "ottla-3.9")
    assert brokers_of("java-3.3", everywhere) == ("ottla-3.3",)
    assert brokers_of("aiokafka-0.8", everywhere) == ("ottla-3.3",)
    assert brokers_of("aiokafka-0.8", everywhere, ["aiokafka-0.8"]) == (OURS, "ottla-3.3")
    assert brokers_of("aiokafka", everywhere) == everywhere
    assert brokers_of("sarama", everywhere) == (OURS,)
