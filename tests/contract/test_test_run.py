"""`make test` runs a test that failed beside others again alone, and the installation of packages waits for apt's lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAKY = """
from pathlib import Path

def test_fails_the_first_time():
    seen = Path(__file__).with_name("seen")
    before = seen.exists()
    seen.touch()
    assert before
"""
FAILING = "def test_fails():\n    assert False\n"
PASSING = "def test_passes():\n    pass\n"
CONFTEST = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("node", item.nodeid))
"""


def run(directory: Path, **files: str) -> subprocess.CompletedProcess[str]:
    (directory / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (directory / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (directory / f"test_{name}.py").write_text(text)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, "-m", "tests.run", "-q"], cwd=directory, env=environ, capture_output=True, text=True, check=False
    )


def test_a_test_that_passes_when_it_is_run_again_is_listed_as_unstable(tmp_path: Path) -> None:
    done = run(tmp_path, flaky=FLAKY, passing=PASSING)
    assert done.returncode == 0, done.stdout
    assert "UNSTABLE: test_flaky.py::test_fails_the_first_time" in done.stdout


def test_a_test_that_fails_twice_fails_the_run_even_beside_an_unstable_one(tmp_path: Path) -> None:
    done = run(tmp_path, flaky=FLAKY, failing=FAILING)
    assert done.returncode == 1, done.stdout
    assert "UNSTABLE: test_flaky.py" in done.stdout
    assert "UNSTABLE: test_failing.py" not in done.stdout


def test_more_than_three_failures_are_not_run_again(tmp_path: Path) -> None:
    done = run(tmp_path, **{f"flaky{number}": FLAKY.replace('"seen"', f'"seen{number}"') for number in range(4)})
    assert done.returncode == 1, done.stdout
    assert "again" not in done.stdout


def test_a_file_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, broken="import no_such_module_of_a_test\n", passing=PASSING)
    assert done.returncode != 0, done.stdout


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may install packages")
@pytest.mark.parametrize(
    ("message", "succeeds"),
    [("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7", True), ("E: Unable to locate package", False)],
)
def test_an_installation_waits_for_apts_lock_and_for_nothing_else(tmp_path: Path, message: str, succeeds: bool) -> None:
    """A fake apt-get fails at its first call and succeeds afterwards; a fake sleep returns at once."""
    programs = {
        "apt-get": f'#!/bin/sh\n[ -e "{tmp_path}/asked" ] && exit 0\ntouch "{tmp_path}/asked"\necho "{message}" >&2\nexit 100\n',
        "sleep": "#!/bin/sh\nexit 0\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "install-packages", "hostname"], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == succeeds
    assert message in done.stderr or succeeds
