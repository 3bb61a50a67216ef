from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from ottla.broker.verification.deployment import OneBroker
from ottla.broker.verification.program import CannotStart, Program
from ottla.broker.verification.scenarios import SCENARIOS
from ottla.broker.verification.stage import NEVER, Script, Stage, Wait
from ottla.protocol.api_keys import ApiKey
from tests.support.verifications import LIMITS, program, stage

TIMEOUT_S = 60


def once(on: Stage) -> Script:
    on.start()
    yield Wait(lambda: True)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def broker_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "ottla-broker"]


def test_a_producer_runs_to_its_end(tmp_path: Path) -> None:
    with stage(tmp_path, program("idempotent")) as on:
        ending = on.play(once(on))
        assert (ending.fault_occurred, ending.overdue, ending.gave_up, ending.restarts, ending.failures) == (True, False, False, 0, [])
        assert on.observer.calls[ApiKey.PRODUCE] == 10
        assert sum(on.broker.topics.end_offset("output", partition) for partition in range(2)) == 20


def test_a_program_that_uses_foreign_names_at_its_end_is_not_judged(tmp_path: Path) -> None:
    class AtTheEnd(OneBroker):
        def foreign_name_problem(self) -> str | None:
            return "it used the topic theirs" if on.observer.work_is_done else None

    on = Stage(program("idempotent"), tmp_path, LIMITS, deployment=AtTheEnd(tmp_path / "data"))
    with on, pytest.raises(CannotStart, match="theirs"):
        on.play(once(on))


def test_group_member_is_ended_when_its_group_has_read_the_input(tmp_path: Path) -> None:
    with stage(tmp_path, program("consumer")) as on:
        ending = on.play(once(on))
        assert (ending.fault_occurred, ending.overdue, ending.failures) == (True, False, [])
        assert [each.exit_code for each in on.instances] == [0]


def test_failed_program_is_restarted_as_the_same_instance(tmp_path: Path) -> None:
    with stage(tmp_path, program("fails-once")) as on:
        ending = on.play(once(on))
        assert (ending.restarts, ending.gave_up) == (1, False)
        assert ending.failures == ["instance 1 ended with exit code 3: no such luck"]
        assert [(each.number, each.exit_code) for each in on.instances] == [(1, 3), (1, 0)]


def test_program_that_fails_too_often_is_given_up(tmp_path: Path) -> None:
    with stage(tmp_path, program("fails"), restarts=1) as on:
        ending = on.play(once(on))
        assert (ending.restarts, ending.gave_up, len(ending.failures)) == (1, True, 2)


def test_run_time_is_limited(tmp_path: Path) -> None:
    with stage(tmp_path, program("hangs"), timeout_s=0.2) as on:
        ending = on.play(once(on))
        assert ending.overdue
        assert ending.seconds < 30
        assert [each.exit_code for each in on.instances] == [-9]


def test_script_that_waits_in_vain_is_not_met(tmp_path: Path) -> None:
    def waits(on: Stage) -> Script:
        on.start()
        yield NEVER

    for number, mode in enumerate(("idempotent", "stream")):
        with stage(tmp_path / str(number), program(mode)) as on:
            ending = on.play(waits(on))
            assert (ending.fault_occurred, ending.overdue) == (False, False)


def test_orphaned_processes_are_ended_before_the_verdict(tmp_path: Path) -> None:
    with stage(tmp_path, program("leaves-a-child")) as on:
        on.play(once(on))
        left = int((on.directory / "work" / "pids").read_text())
        until = time.monotonic() + TIMEOUT_S  # the signal was sent, but the kernel may end the process later
        while runs(left) and time.monotonic() < until:
            os.sched_yield()
        assert not runs(left)


def test_zombie_instance_is_not_waited_for(tmp_path: Path) -> None:
    def replaced(on: Stage) -> Script:
        zombie.resume()
        return once(on)

    with stage(tmp_path, program("hangs"), restarts=0) as on:
        zombie = on.start()
        zombie.pause()
        on.program = program("idempotent")
        ending = on.play(replaced(on))
        assert (ending.overdue, ending.gave_up) == (False, False)
        assert zombie.exit_code == -9


def test_crashed_broker_is_restarted_with_its_data(tmp_path: Path) -> None:
    def crashes(on: Stage) -> Script:
        rule = on.fault("crash:step=prepared,after=1,times=1")
        on.start()
        yield on.hit(rule)

    with stage(tmp_path, program("transactional")) as on:
        ending = on.play(crashes(on))
        on.quiesce()
        assert (ending.fault_occurred, ending.restarts) == (True, 0)
        assert on.observer.calls[ApiKey.PRODUCE] >= 10


def test_stage_ended_by_an_error_leaves_no_process_or_thread(tmp_path: Path) -> None:
    before = len(broker_threads())
    with pytest.raises(KeyboardInterrupt), stage(tmp_path, program("hangs")) as on:  # noqa: PT012 # the program runs, then the error
        started = on.start()
        on.broker.call(lambda _: on.broker.script.on_crash())
        raise KeyboardInterrupt
    assert not psutil.pid_exists(started.process.pid)
    assert len(broker_threads()) == before


def test_stage_that_cannot_start_leaves_no_thread(tmp_path: Path) -> None:
    before = len(broker_threads())
    with pytest.raises(Exception, match="in/put"), stage(tmp_path, Program(["true"], input="in/put")):
        pass
    assert len(broker_threads()) == before


def test_exhausted_epochs_give_the_next_producer_another_id(tmp_path: Path) -> None:
    with stage(tmp_path, program("transactional")) as on:
        exhausted = on.exhaust_epoch("writer-1", 0)
        on.play(once(on))
        assert exhausted not in on.observer.producer_ids["writer-1"]


def test_old_timestamps_and_an_advanced_clock_delete_no_records(tmp_path: Path) -> None:
    with stage(tmp_path, program("idempotent")) as on:
        on.play(once(on))
        on.quiesce()
        on.quiesce()
        assert len(on.broker.call(lambda broker: [p for p in broker.services.partitions if p.log.log_start_offset])) == 0


def test_every_scenario_describes_what_happens() -> None:
    assert all(each.happens and each.script.__doc__ for each in SCENARIOS)
