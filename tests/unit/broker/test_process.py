"""A process that runs a node: its output, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from ottla.broker.process import run_node

class Node:
    ports = [7, 8]

    async def start(self):
        print("started")

    async def warm_up(self):
        pass

    async def stop(self):
        print("stopped", flush=True)

    def greeting(self):
        return "here"

sys.exit(run_node(Node, Path(sys.argv[1])))
"""


def test_a_node_is_started_announced_and_stopped_by_a_signal(tmp_path: Path) -> None:
    port_file = tmp_path / "ports"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(port_file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["started\n", "here\n"]
    assert port_file.read_text() == "7\n8\n"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, "stopped\n")
