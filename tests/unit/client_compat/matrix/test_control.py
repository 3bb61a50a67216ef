"""A client program that is controlled by lines of JSON: whatever it does, the caller gets a response or an error in time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.matrix import control
from client_compat.matrix.control import ClientError, ClientMissing, Program, ProgramFailed, Ready, ScenarioTimedOut, Unsupported
from tests.support import fake_program

FAKE = Path(fake_program.__file__)


def fake(directory: Path, *mode: str) -> Program:
    return Program([sys.executable, str(FAKE), *mode], directory / "program.log")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with fake(tmp_path) as started:
        yield started


def test_a_program_introduces_itself_and_ends_when_its_input_ends(tmp_path: Path) -> None:
    program = fake(tmp_path)
    assert program.start() == Ready("fake", "1.2", "")
    assert program.alive
    program.end()
    assert not program.alive


def test_request_carries_its_arguments_without_none_values(program: Program) -> None:
    answer = program.call("echo", timeout_ms=500, topic="t", partition=None)
    assert answer == {"id": 1, "op": "echo", "timeout_ms": 500, "topic": "t"}
    assert program.call("echo")["id"] == 2


def test_an_error_comes_back_with_its_code_and_flags(program: Program) -> None:
    with pytest.raises(ClientError) as caught:
        program.call("refuse")
    assert (caught.value.code, caught.value.retriable, caught.value.fatal) == ("NOT_LEADER_OR_FOLLOWER", True, None)
    assert str(caught.value) == "NOT_LEADER_OR_FOLLOWER: elsewhere"


def test_missing_client_feature_is_unsupported_in_the_clients_words(program: Program) -> None:
    with pytest.raises(Unsupported, match="it has none of that"):
        program.call("lack")


@pytest.mark.parametrize("op", ["wrong-id", "no-object", "neither", "garbage"])
def test_malformed_answer_is_a_program_failure(program: Program, op: str) -> None:
    with pytest.raises(ProgramFailed):
        program.call(op)


def test_dead_program_is_reported_with_exit_code_and_last_output(program: Program) -> None:
    with pytest.raises(ProgramFailed, match=r"(?s)did not answer die: it ended with 3.*so be it"):
        program.call("die")
    with pytest.raises(ProgramFailed):
        program.call("echo")


def test_hanging_program_fails_after_the_calls_timeout(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "GRACE_S", 0.05)
    with pytest.raises(ProgramFailed, match="did not answer hang within"):
        program.call("hang", timeout_ms=50)
    program.kill()


def test_call_ends_at_the_scenarios_deadline(program: Program) -> None:
    program.deadline = time.monotonic() + 0.05
    with pytest.raises(ScenarioTimedOut):
        program.call("hang")
    program.kill()


def test_program_that_is_never_ready_or_introduces_itself_wrongly_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "READY_TIMEOUT_S", 0.3)
    monkeypatch.setattr(control, "END_TIMEOUT_S", 0.1)
    silent = fake(tmp_path, "silent")
    with pytest.raises(ProgramFailed, match="did not say that it is ready"):
        silent.start()
    assert not silent.alive
    monkeypatch.setattr(control, "READY_TIMEOUT_S", 30.0)
    with pytest.raises(ProgramFailed, match="not an introduction"):
        fake(tmp_path, "stranger").start()
    with pytest.raises(ProgramFailed, match="could not be started"):
        Program([str(tmp_path / "nothing")], tmp_path / "log").start()


def test_uninstalled_client_is_missing_and_not_failed(tmp_path: Path) -> None:
    program = fake(tmp_path, "missing")
    with pytest.raises(ClientMissing, match="its native part does not build"):
        program.start()
    assert not program.alive


def test_concurrent_calls_get_their_own_answers(program: Program) -> None:
    found: dict[int, object] = {}

    def ask(number: int) -> None:
        found[number] = program.call("echo", topic=f"t{number}")["topic"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"t{number}" for number in range(20)}
