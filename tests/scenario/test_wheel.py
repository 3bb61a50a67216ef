"""After `pip install ottla` an environment has one package more, which a module of the user's cannot hide."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from client_compat.release.smoke import WALKERS
from client_compat.support.wheel import ROOT, build_sdist, build_wheel, copy_sources

LIMIT_S = 240
SMOKE = ROOT / "client_compat" / "release" / "smoke.py"
WITHOUT = "def test_mine():\n    import {name}\n    assert {name}.WHOSE == 'mine'\n"
WITH = """
def test_with_a_broker(ottla_broker, ottla_topic):
    from ottla.testing import InProcessBroker

    assert isinstance(ottla_broker, InProcessBroker)
    assert ottla_broker.topics.names() == [ottla_topic]
    ottla_broker.assert_exactly_once(expected=[], audit=False)
"""
CONFIG = "[tool.pytest.ini_options]\nfilterwarnings = ['error']\nasyncio_default_fixture_loop_scope = 'function'\n"


@dataclass(frozen=True)
class Application:
    """A user's program: the location of its module, and how its pytest is started."""

    module: str
    command: tuple[str, ...]
    pythonpath: str = ""

    def write(self, to: Path, suite: str) -> None:
        """Write the module, the settings and the tests."""
        module = to / self.module
        name = module.parent.name if module.stem == "__init__" else module.stem
        files = {
            module: "WHOSE = 'mine'\n",
            to / "pyproject.toml": CONFIG + (f"pythonpath = ['{self.pythonpath}']\n" if self.pythonpath else ""),
            to / "tests" / "test_mine.py": WITHOUT.format(name=name) + suite,
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def __str__(self) -> str:
        return " ".join([self.module, "under", *self.command, self.pythonpath]).strip()


PYTEST, PYTHON_M = ("pytest",), ("python", "-m", "pytest")
APPLICATIONS = (
    Application("broker.py", PYTHON_M),
    Application("broker.py", PYTEST, "."),
    Application("broker/__init__.py", PYTHON_M),
    Application("src/broker/__init__.py", PYTEST, "src"),
    Application("tests/broker.py", PYTEST),
    Application("protocol.py", PYTHON_M),
    Application("protocol.py", PYTEST, "."),
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the wheel and all packages of the current one, except Ottla itself, which is an editable install there;
    return its `bin`."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    (there,) = home.glob("lib/python*/site-packages")
    for here in {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}:
        for each in here.iterdir():
            if "ottla" not in each.name.lower() and not (there / each.name).exists():
                (there / each.name).symlink_to(each)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True)
    (home / "bin" / "pytest").write_text(f"#!{python}\nfrom pytest import main\nraise SystemExit(main())\n")
    (home / "bin" / "pytest").chmod(0o755)
    return home / "bin"


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_has_one_top_level_name(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ottla"}


def test_the_wheel_has_the_packages_their_data_and_their_types_but_no_test_data(wheel: Path) -> None:
    found = names(wheel)
    assert {"ottla/py.typed", "ottla/broker/app.py", "ottla/protocol/records/walk.py", "ottla/spark_jobs/log4j2.properties"} <= found
    assert {"ottla/spark_jobs/reports/report.html.j2", "ottla/broker/admin/console/page-files/index.html"} <= set(found)
    assert [name for name in found if "corpus" in name] == []


def test_sdist_builds_the_same_wheel(sources: Path, wheel: Path, tmp_path: Path) -> None:
    again = build_wheel(build_sdist(sources, tmp_path), tmp_path / "again")
    assert names(again) == names(wheel)


@pytest.mark.parametrize("suite", ["", WITH], ids=["without Ottla", "with a broker"])
@pytest.mark.parametrize("application", APPLICATIONS, ids=str)
def test_applications_modules_with_ottlas_folder_names_are_importable(
    application: Application, suite: str, environment: Path, tmp_path: Path
) -> None:
    application.write(tmp_path, suite)
    command = [str(environment / application.command[0]), *application.command[1:], "-q", "-p", "no:cacheprovider"]
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(command, cwd=tmp_path, env=unset, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{1 + bool(suite)} passed" in done.stdout


def test_python_m_ottla_runs_the_installed_command(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "broker.py").write_text("raise RuntimeError('mine')\n")
    words = [[str(environment / "python"), "-m", "ottla"], [str(environment / "ottla")]]
    versions = [subprocess.run([*each, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout for each in words]
    assert versions[0] == versions[1]
    assert "0." in versions[0]


def test_the_installed_package_passes_the_smoke_test_of_a_release(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run([environment / "python", "-I", SMOKE], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert found["compiled"] == list(WALKERS)
