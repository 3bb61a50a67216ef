from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal
from client_compat.support.signals import end_on_signals
end_on_signals()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_cleanup_runs_on_a_signal(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert running.stdout.read() == "cleaned up\n"
        assert running.wait() == 128 + number
