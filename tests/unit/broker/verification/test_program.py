"""The processes of the program under test: their environment, and that none outlives the run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from ottla.broker.verification.program import CannotStart, Program, Role, effects, start
from tests.support.verifications import program

SHOW = (
    "import os, sys; print(*sys.argv[1:]); print(os.getcwd()); print(*(f'{k}={v}' for k, v in sorted(os.environ.items()) if 'OTTLA_' in k))"
)


def pids(directory: Path) -> list[int]:
    """Wait until the program has written its process ids, and return them."""
    pid_file = directory / "work" / "pids"
    while not pid_file.exists():
        os.sched_yield()
    return [int(number) for number in pid_file.read_text().split()]


def gone(pid: int) -> bool:
    """Wait until that process has ended or is a zombie, and return True."""
    try:
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            os.sched_yield()
    except psutil.NoSuchProcess:
        pass
    return True


def test_command_and_environment_contain_the_brokers_address(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SHOW, "{bootstrap}/{instance}", "{input}-{output}", "{records}", "{work}"]
    shown = start(Program(words, records=33), "127.0.0.1:9", tmp_path, 2, 1)
    assert shown.process.wait(30) == 0
    arguments, _, environment = shown.out.read_text().splitlines()
    assert arguments == f"127.0.0.1:9/2 input-output 33 {tmp_path / 'work'}"
    assert environment.split() == [
        "OTTLA_BOOTSTRAP_SERVERS=127.0.0.1:9",
        "OTTLA_GROUP=verified",
        "OTTLA_INPUT=input",
        "OTTLA_INSTANCE=2",
        "OTTLA_OUTPUT=output",
        "OTTLA_RECORDS=33",
        f"OTTLA_WORK_DIR={tmp_path / 'work'}",
    ]


def test_missing_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="/no/such/program cannot be run: No such file"):
        start(Program(["/no/such/program"]), "127.0.0.1:9", tmp_path, 1, 1)


def test_program_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path) -> None:
    hanging = start(program("hangs"), "127.0.0.1:9", tmp_path, 1, 1)
    both = pids(tmp_path)
    assert not hanging.end(0.05)
    assert hanging.may_end
    assert all(gone(pid) for pid in both)


def test_orphaned_child_processes_end_with_the_program(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-c",
        "import os, subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1).pid, flush=True); os._exit(0)",
    ]
    left = start(Program(words), "127.0.0.1:9", tmp_path, 1, 1)
    assert left.process.wait(30) == 0
    assert left.end(5)
    assert gone(int(left.out.read_text()))


def test_paused_program_is_stopped_until_resumed_or_killed(tmp_path: Path) -> None:
    hanging = start(program("hangs"), "127.0.0.1:9", tmp_path, 1, 1)
    both = [psutil.Process(pid) for pid in pids(tmp_path)]
    hanging.pause()
    while any(process.status() != psutil.STATUS_STOPPED for process in both):
        os.sched_yield()
    hanging.resume()
    while any(process.status() == psutil.STATUS_STOPPED for process in both):
        os.sched_yield()
    hanging.pause()
    hanging.kill()
    assert all(gone(process.pid) for process in both)


def test_error_tail_is_the_end_of_stderr_without_colours(tmp_path: Path) -> None:
    talk = "import sys; sys.stderr.write(''.join(f'line {n}\\n' for n in range(100_000)) + '\\x1b[31mred\\x1b[0m\\x00\\n')"
    talking = start(Program([sys.executable, "-c", talk]), "127.0.0.1:9", tmp_path, 1, 1)
    talking.process.wait(30)
    assert talking.error_tail()[-2:] == ["line 99999", "red"]
    assert len(talking.error_tail()) == 12


def test_error_tail_is_truncated_at_a_long_line(tmp_path: Path) -> None:
    talking = start(Program([sys.executable, "-c", "import sys; sys.stderr.write('x' * 10_000)"]), "127.0.0.1:9", tmp_path, 1, 1)
    talking.process.wait(30)
    assert talking.error_tail() == ["x" * 500 + "…"]


def test_consumers_effects_are_its_output_lines_or_those_of_the_result_command(tmp_path: Path) -> None:
    printing = Program([sys.executable, "-c", "print('a\\nb')"], Role.CONSUMER)
    instances = [start(printing, "127.0.0.1:9", tmp_path, number, number) for number in (1, 2)]
    for instance in instances:
        instance.process.wait(30)
    assert effects(printing, "127.0.0.1:9", tmp_path, instances) == ["a", "b", "a", "b"]
    printing_result = Program(printing.command, Role.CONSUMER, result=[sys.executable, "-c", "print('{work}')"])
    assert effects(printing_result, "127.0.0.1:9", tmp_path, instances) == [str(tmp_path / "work")]


def test_effect_is_a_line_with_any_characters(tmp_path: Path) -> None:
    odd = "import sys; sys.stdout.buffer.write('a\\u2028b\\n'.encode() + bytes([255]) + b'\\n'); print(sys.stdin.read())"
    command = [sys.executable, "-c", odd]
    wanted = ["a\u2028b", "\ufffd", ""]
    assert effects(Program(["true"], Role.CONSUMER, result=command), "127.0.0.1:9", tmp_path, []) == wanted
    printing = start(Program(command, Role.CONSUMER), "127.0.0.1:9", tmp_path, 1, 1)
    printing.process.wait(30)
    assert effects(Program(command, Role.CONSUMER), "127.0.0.1:9", tmp_path, [printing]) == wanted


def test_hanging_result_command_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.verification.program.RESULT_TIMEOUT_S", 2)
    with pytest.raises(RuntimeError, match="did not end within 2 s"):
        effects(Program(["true"], Role.CONSUMER, result=program("hangs").command), "127.0.0.1:9", tmp_path, [])
    assert all(gone(pid) for pid in pids(tmp_path))


@pytest.mark.parametrize(
    ("command", "why"), [([sys.executable, "-c", "import sys; sys.exit('no store')"], "no store"), (["/no/such/program"], "No such file")]
)
def test_failed_result_command_raises(tmp_path: Path, command: list[str], why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        effects(Program(["true"], Role.CONSUMER, result=command), "127.0.0.1:9", tmp_path, [])
