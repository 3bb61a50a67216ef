"""A process that runs a node: its output, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
import os
import signal
import sys
from pathlib import Path
from ottla.broker.core import limits
from ottla.broker.process import run_node

repeated = sys.argv[2:]
if repeated:
    limits.REPEATED_SIGNAL_MS = int(repeated[0])

class Node:
    ports = [7, 8]

    async def start(self):
        print("started")

    async def warm_up(self):
        pass

    async def stop(self):
        if repeated:
            await turns()
            os.kill(os.getpid(), signal.SIGTERM)
            await turns()
        print("stopped" if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else "stopped, SIGHUP ignored", flush=True)

    def greeting(self):
        return "here"

async def turns():
    for _ in range(100):
        await asyncio.sleep(0)

sys.exit(run_node(Node, Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("sent", "hangup", "says"),
    [
        (signal.SIGTERM, signal.SIG_DFL, "stopped\n"),
        (signal.SIGHUP, signal.SIG_DFL, "stopped\n"),
        (signal.SIGTERM, signal.SIG_IGN, "stopped, SIGHUP ignored\n"),
    ],
)
def test_a_node_is_started_announced_and_stopped_by_a_signal(
    tmp_path: Path, sent: signal.Signals, hangup: signal.Handlers, says: str
) -> None:
    """SIGHUP comes from a closed terminal; a program that nohup has started inherits that it is ignored."""
    port_file = tmp_path / "ports"
    before = signal.signal(signal.SIGHUP, hangup)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(port_file)], stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGHUP, before)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["started\n", "here\n"]
    assert port_file.read_text() == "7\n8\n"
    process.send_signal(sent)
    rest, _ = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, says)


@pytest.mark.parametrize(("repeated_ms", "ends"), [(60_000, (0, "started\nhere\nstopped\n")), (0, (1, "started\nhere\n"))])
def test_only_a_later_second_signal_stops_a_node_at_once(tmp_path: Path, repeated_ms: int, ends: tuple[int, str]) -> None:
    """`timeout` and npm pass a signal on that the process has received already with its group."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "ports"), str(repeated_ms)]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGHUP, before)
    assert process.stdout is not None
    begin = "".join(process.stdout.readline() for _ in range(2))
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=20)
    assert (process.returncode, begin + rest) == ends
