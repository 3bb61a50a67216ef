"""`ottla verify` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from junitparser import JUnitXml

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.contents import contents
from ottla.broker.verification.scenarios import SCENARIOS

TIMEOUT_S = 120
PROGRAM = (sys.executable, "-m", "tests.support.verified_program")
MEMBER = (sys.executable, "-m", "tests.support.verified_member")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ottla", "verify", "--records", "20", *words]


def verify(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def test_verify_of_a_correct_program_exits_with_0(tmp_path: Path) -> None:
    names = ("lost-ack", "leader-unavailable", "rebalance")
    scenarios = [word for name in names for word in ("--scenario", name)]
    done = verify(*scenarios, "--junit", str(tmp_path / "verify.xml"), "--", *PROGRAM, "idempotent")
    assert "3 held, 1 does not apply" in done.stdout
    assert "held     lost-ack" in done.stderr
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    assert [(case.name, [type(each).__name__ for each in case.result]) for case in suite] == [
        ("calm", []),
        ("lost-ack", []),
        ("leader-unavailable", []),
        ("rebalance", ["Skipped"]),
    ]


def test_verify_reports_a_broken_guarantee_and_exits_with_1(tmp_path: Path) -> None:
    done = verify("--scenario", "lost-ack", "--junit", str(tmp_path / "verify.xml"), "--", *PROGRAM, "plain", code=1)
    assert "enable idempotence" in done.stdout
    assert "1 held, 1 broken" in done.stdout
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    assert (suite.tests, suite.failures) == (2, 1)


def test_verify_with_json_prints_only_json_to_standard_output() -> None:
    done = verify("--json", "--scenario", "lost-ack", "--", *PROGRAM, "plain", code=1)
    result = json.loads(done.stdout)
    assert (result["role"], result["command"][-1]) == ("producer", "plain")
    assert [(each["name"], each["standing"]) for each in result["scenarios"]] == [("calm", "held"), ("lost-ack", "broken")]
    assert not result["scenarios"][1]["guarantees"]["once"]


def test_verify_judges_a_consumer_by_its_result_command() -> None:
    result = " ".join([*MEMBER, "consumer", "--result"])
    words = ("--role", "consumer", "--scenario", "crash-restart", "--records", "40", "--result", result, "--", *MEMBER, "consumer")
    broken = verify(*words, "--append", code=1)
    assert "effects occur twice" in broken.stdout


def test_verify_counts_exposed_as_broken_only_with_strict() -> None:
    words = ("--scenario", "delayed-end-txn", "--", *PROGRAM, "transactional", "--v1")
    assert "1 exposed" in verify(*words).stdout
    assert "1 exposed" in verify("--strict", *words, code=1).stdout


def test_verify_does_not_run_skipped_scenarios() -> None:
    skipped = [word for each in SCENARIOS if each.name != "leader-unavailable" for word in ("--skip", each.name)]
    result = json.loads(verify("--json", *skipped, "--", *PROGRAM, "plain").stdout)
    assert [each["name"] for each in result["scenarios"]] == ["calm", "leader-unavailable"]


def test_verify_requests_the_given_number_of_records(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    verify("--records", "31", "--scenario", "rebalance", "--keep", str(kept), "--", *PROGRAM, "plain")
    with InProcessBroker(kept / "calm" / "data") as again:
        assert len(again.call(contents)) == 31
    assert (kept / "calm" / "instance-1-run-1.err").read_text() == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--keep", ".", "--", "true"), "not an empty directory"),
        (("--", "/no/such/program"), "/no/such/program cannot be run: No such file"),
        (("--", "true"), "wrote no readable record"),
        (("--restarts", "1", "--", *PROGRAM, "fails"), "instance 1 ended with exit code 3: no such luck"),
        (("--timeout", "1", "--", *PROGRAM, "hangs"), "did not end within 1 s"),
    ],
)
def test_verify_exits_with_2_and_the_reason_if_it_cannot_judge(words: tuple[str, ...], why: str) -> None:
    assert why in " ".join(verify(*words, code=2).stderr.split())


def test_verify_reports_earlier_scenarios_when_it_cannot_judge() -> None:
    result = json.loads(verify("--timeout", "1", "--json", "--", *PROGRAM, "hangs", code=2).stdout)
    assert "did not end within 1 s" in result["could_not_judge"]
    assert [(each["name"], each["standing"]) for each in result["scenarios"]] == [("calm", "broken")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_verify_ended_by_a_signal_leaves_no_process_and_no_directory(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # tests that a shell runs in the background, or nohup, inherit ignored signals
    running = subprocess.Popen(command("--", *PROGRAM, "hangs"), env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL)
    signal.signal(number, before)
    while not (files := list(tmp_path.glob("ottla-verify-*/calm/work/pids"))):
        assert running.poll() is None
        os.sched_yield()
    started = [psutil.Process(int(pid)) for pid in files[0].read_text().split()]
    running.send_signal(number)
    assert running.wait(TIMEOUT_S) in {130, 128 + number}
    assert psutil.wait_procs(started, TIMEOUT_S)[1] == []
    assert list(tmp_path.iterdir()) == []


def test_nohup_keeps_verify_running_after_its_terminal_ends(tmp_path: Path) -> None:
    words = ["nohup", *command("--timeout", "2", "--keep", str(tmp_path / "kept"), "--", *PROGRAM, "hangs")]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("kept/calm/work/pids")):
        assert running.poll() is None
        os.sched_yield()
    running.send_signal(signal.SIGHUP)
    assert running.wait(TIMEOUT_S) == 2


def test_processes_that_a_program_leaves_behind_end_with_the_verification(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    verify("--scenario", "rebalance", "--keep", str(kept), "--", *PROGRAM, "leaves-a-child")
    left = int((kept / "calm" / "work" / "pids").read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


def test_verify_on_a_cluster_deletes_its_topics_and_groups_unless_kept(tmp_path: Path) -> None:
    with InProcessBroker() as broker:

        def left() -> list[str]:
            return broker.topics.names() + broker.call(lambda node: sorted(each.group_id for each in node.services.groups.all_groups()))

        on = ("--bootstrap", broker.bootstrap, "--role", "stream", "--records", "40")
        runs = ("--scenario", "crash-restart", "--scenario", "expelled-member", "--scenario", "lock-timeout")
        done = verify(*on, *runs, "--", *MEMBER, "stream")
        assert "3 held, 1 does not apply" in done.stdout
        assert left() == []
        done = verify(*on, "--scenario", "zombie-leader", "--keep", str(tmp_path / "kept"), "--", *MEMBER, "stream")
        assert "1 held, 1 cannot run" in done.stdout
        prefix = left()[0].removesuffix("-1-calm-input")
        assert left() == [f"{prefix}-1-calm-{name}" for name in ("input", "output", "verified")]
        assert f"their names begin with {prefix}." in " ".join(done.stderr.split())


def test_verify_names_an_unreachable_cluster() -> None:
    assert "127.0.0.1:1" in verify("--bootstrap", "127.0.0.1:1", "--", *PROGRAM, "plain", code=2).stderr
    assert "names no broker" in verify("--bootstrap", "nowhere:port", "--", *PROGRAM, "plain", code=2).stderr
