"""A reserved port is given to nobody else, in this process or another, even while nothing listens on it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from client_compat.support import ports
from client_compat.support.ports import free_port

ASKS = "import client_compat.support.ports as p, sys; p.FIRST_PORT, p.LAST_PORT, p.ATTEMPTS_MAX = {}, {}, 1; print(p.free_port())"


def test_given_port_is_given_to_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    other = subprocess.run([sys.executable, "-c", ASKS.format(port, port + 1)], capture_output=True, text=True, check=False)
    assert f"no free port between {port} and {port + 1}" in other.stderr
    monkeypatch.setattr(ports, "FIRST_PORT", port)
    monkeypatch.setattr(ports, "LAST_PORT", port + 1)
    monkeypatch.setattr(ports, "ATTEMPTS_MAX", 1)
    with pytest.raises(OSError, match="no free port"):
        free_port()
