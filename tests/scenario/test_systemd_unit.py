"""The systemd unit: its command is valid, and the broker works under its restrictions, as far as they can be applied here without
systemd."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.cli.serve import EXIT_USAGE, parser
from ottla.broker.core.descriptors import OPEN_FILES_WANTED

UNIT = Path(__file__).resolve().parents[2] / "docs" / "systemd" / "ottla.service"
PROGRAM = Path(sys.executable).with_name("ottla")
NO_SUCH_PRCTL = 33
FORBID_EXECUTABLE_MEMORY = f"""
import ctypes, os, sys
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit({NO_SUCH_PRCTL})
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Applies MemoryDenyWriteExecute without seccomp, and executes the given program."""
LIMIT_S = 60


@pytest.fixture
def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign] # systemd's names have capitals
    unit.read(UNIT)
    return unit["Service"]


def command(service: configparser.SectionProxy, **variables: Path) -> list[str]:
    """Return the words of ExecStart, with systemd's variables replaced."""
    return shlex.split(re.sub(r"\$\{(\w+)\}", lambda found: str(variables[found[1]]), service["ExecStart"]))


def test_systemd_units_command_parses_and_its_limits_are_the_brokers(service: configparser.SectionProxy) -> None:
    program, name, *options = command(service, CREDENTIALS_DIRECTORY=Path("/credentials"), STATE_DIRECTORY=Path("/state"))
    assert (Path(program).name, name) == ("ottla", "serve")
    parsed = parser().parse_args(options)
    assert (parsed.config, parsed.data_dir) == (Path("/credentials/server.properties"), "/state")
    assert service["LoadCredential"].partition(":")[0] == parsed.config.name
    assert int(service["LimitNOFILE"]) == OPEN_FILES_WANTED
    assert int(service["RestartPreventExitStatus"]) == EXIT_USAGE


def test_systemd_analyze_accepts_the_unit_and_rates_its_exposure_low(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/ottla/bin/ottla", str(PROGRAM)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    analysis = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", unit], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    exposure = re.search(r"Overall exposure level for ottla\.service: (\S+)", analysis.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= 1.2, analysis.stdout  # as docs/running-a-broker.md says


def test_the_broker_starts_and_stops_without_memory_that_it_could_make_executable(
    service: configparser.SectionProxy, tmp_path: Path
) -> None:
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\n")
    words = command(service, CREDENTIALS_DIRECTORY=tmp_path, STATE_DIRECTORY=tmp_path / "state")
    assert service["MemoryDenyWriteExecute"] == "yes"
    broker = subprocess.Popen([sys.executable, "-c", FORBID_EXECUTABLE_MEMORY, str(PROGRAM), *words[1:]], stdout=subprocess.PIPE, text=True)
    with broker:
        assert broker.stdout is not None
        if not (line := broker.stdout.readline()) and broker.wait(LIMIT_S) == NO_SUCH_PRCTL:
            pytest.skip("this kernel cannot forbid it (PR_SET_MDWE came with Linux 6.3)")
        assert "Ottla is listening on 127.0.0.1:" in line
        broker.send_signal(getattr(signal, service["KillSignal"]))
        assert broker.wait(LIMIT_S) == 0
    assert (tmp_path / "state" / "meta.properties").exists()
