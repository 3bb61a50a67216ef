"""librdkafka's mock cluster in its own process: `python -m client_compat.bench.peers.mock FILE`.

Rule: the mock chooses its own port. The process writes it atomically to FILE, where the parent process reads it.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from client_compat.support.brokers import POLL_S, START_TIMEOUT_S, BrokerFailed, BrokerProcess

METADATA_TIMEOUT_S = 10.0


@dataclass(slots=True)
class MockProcess(BrokerProcess):
    """The mock's process. Its `port` is known only after the start."""

    port_file: Path = field(default=Path())

    @classmethod
    def over(cls, directory: Path) -> MockProcess:
        port_file = directory / "port"
        argv = [sys.executable, "-m", __name__, str(port_file)]
        return cls(argv, 0, directory / "broker.log", name="librdkafka's mock", port_file=port_file)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start the mock's process, and wait until it has chosen its port. Raises `BrokerFailed` if that takes longer than `timeout_s`
        seconds, or the process ends."""
        began = time.perf_counter()
        self.port_file.unlink(missing_ok=True)
        self.spawn()
        while not self.port_file.exists():
            self.check_alive()
            if time.perf_counter() - began > timeout_s:
                self.kill()
                raise BrokerFailed(f"{self.name} told no port within {timeout_s:.0f} s:\n{self.output_tail()}")
            time.sleep(POLL_S)
        self.port = int(self.port_file.read_text())
        return time.perf_counter() - began


def main(port_file: Path) -> None:
    """Run one mock broker until SIGTERM."""
    holder = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"}, logger=logging.getLogger("mock"))
    (broker,) = holder.list_topics(timeout=METADATA_TIMEOUT_S).brokers.values()
    unfinished = port_file.with_suffix(".part")
    unfinished.write_text(str(broker.port))
    unfinished.rename(port_file)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main(Path(sys.argv[1]))
