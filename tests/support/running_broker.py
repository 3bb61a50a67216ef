"""A real broker for tests: in a thread with a loop of its own, on a free port (`RunningBroker`), or as a process (`BrokerProcess`).

`kill` of the threaded one is what SIGKILL leaves, as far as one process can show it: no checkpoint, no sync, no clean-shutdown marker.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvloop

from broker.app import Broker
from broker.core.clock import Clock
from broker.core.settings_load import load
from broker.faults.engine import Faults
from broker.faults.rules import parse_rule
from protocol.client import Client

T = TypeVar("T")
HOST = "127.0.0.1"
START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20

TEST_SETTINGS = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
"""Fewer partitions of internal topics than Kafka's 50, so that a test's broker starts in milliseconds."""


class RunningBroker:
    """A broker over `data_dir`. Settings go by Kafka's names; `faults` are rules of `ottla serve --fault`. Use as a context manager."""

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str] | None = None, *, faults: Sequence[str] = (), clock: Clock | None = None
    ) -> None:
        self.data_dir = data_dir
        self.settings = {**TEST_SETTINGS, **(settings or {})}
        self.faults = Faults(parse_rule(rule) for rule in faults)
        self.exit_codes: list[int] = []
        """What the broker would have ended its process with (a failed fsync)."""
        self._clock = clock
        self._port = 0

    def start(self) -> RunningBroker:
        """Start it; on the same port as before when it ran already."""
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()
        try:
            self.call_async(self._start())
        except BaseException:
            self._end_loop()
            raise
        return self

    async def _start(self) -> None:
        wanted = {"log.dir": str(self.data_dir), "listeners": f"PLAINTEXT://{HOST}:{self._port}", **self.settings}
        self.faults.on_crash = lambda: self.broker.crash()
        self.broker = Broker(load(wanted, {}, None).settings, self.faults, self._clock, exit_now=self.exit_codes.append)
        await self.broker.start()
        self._port = self.broker.address[1]

    @property
    def port(self) -> int:
        return self._port

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    def client(self, client_id: str | None = "test", *, port: int | None = None) -> Client:
        """A connection of the project's own blocking client."""
        return Client(HOST, port or self._port, client_id=client_id)

    def call(self, work: Callable[[Broker], T]) -> T:
        """Run `work` on the broker's loop and give back what it returns."""

        async def on_loop() -> T:
            return work(self.broker)

        return self.call_async(on_loop())

    def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)

    def call_until(self, condition: Callable[[Broker], bool]) -> None:
        """Wait until `condition` holds on the broker's loop; looks again after each turn. Raises TimeoutError."""

        async def look() -> None:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not condition(self.broker):  # noqa: ASYNC110 # a condition of any kind has no event
                    await asyncio.sleep(0)

        self.call_async(look())

    def script(self, *rules: str) -> None:
        """Load rules of `ottla serve --fault`."""
        self.call(lambda _: [self.faults.add(parse_rule(rule)) for rule in rules])

    def release(self, name: str | None = None) -> int:
        """Release what a rule holds; how much that was."""
        return self.call(lambda _: self.faults.release(name))

    def until_held(self, count: int = 1) -> None:
        """Wait until so much is held."""
        self.call_until(lambda _: len(self.faults.held) >= count)

    def stop(self) -> None:
        """A clean stop, as SIGTERM's."""
        self.call_async(self.broker.stop())
        self._end_loop()

    def kill(self) -> None:
        """No clean stop."""
        self.call(lambda broker: broker.crash())
        self._end_loop()

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) and start again on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def _end_loop(self) -> None:
        async def cancel_rest() -> None:
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        self.call_async(cancel_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        self._loop.close()

    def __enter__(self) -> RunningBroker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._loop.is_closed():
            self.stop()


class BrokerProcess:
    """`ottla serve` as a process of its own: for signals, start-up lines and exit codes."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        self.options = [f"--set={name}={value}" for name, value in TEST_SETTINGS.items()] + list(options)
        self.port = 0
        self.start_line = ""

    def start(self) -> BrokerProcess:
        """Start it and wait for the line that says where it listens. Raises RuntimeError with its output when it ends instead."""
        argv = [sys.executable, "-m", "broker", "serve", "--data-dir", str(self.data_dir), "--port", str(self.port), *self.options]
        self._log = self.data_dir.with_name(f"{self.data_dir.name}.log").open("ab")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self._log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        assert self.process.stdout is not None
        self.start_line = self.process.stdout.readline().decode()
        if not self.start_line:
            code = self.process.wait(STOP_TIMEOUT_S)
            self._close()
            raise RuntimeError(f"ended with {code}: {self.log_text()}")
        self.port = int(self.start_line.split(" listening on ")[1].split(" ")[0].rpartition(":")[2])
        return self

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def client(self, client_id: str | None = "test") -> Client:
        return Client(HOST, self.port, client_id=client_id)

    def log_text(self) -> str:
        """What it logged so far."""
        return self.data_dir.with_name(f"{self.data_dir.name}.log").read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(STOP_TIMEOUT_S)
        self._close()
        return code

    def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """SIGTERM."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()
        elif not self._log.closed:
            self._close()
