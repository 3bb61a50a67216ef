"""A broker in this process, on a thread and an event loop of its own, that any client reaches through a real socket.

Rules: nothing is shared with the caller's thread but what goes through `call`; a broker that is started again keeps its port and its
data; the temporary directory of a broker that was given none goes when it stops, unless it is kept. Nothing in that is synced to the
disk: what was written is there after a `kill`, as the page cache is after SIGKILL, and a test cannot lose power.

```python
with InProcessBroker() as broker:
    broker.topics.create("orders", partitions=3)
    broker.faults.add("drop-ack:api=Produce,topic=orders,times=1")
    produce_something(broker.bootstrap)
    broker.faults.assert_consumed()
```
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ottla.broker.api.routes import load_all
from ottla.broker.app import Broker
from ottla.broker.core.clock import Clock, MovableClock, VirtualClock
from ottla.broker.core.settings_load import load
from ottla.broker.development_security import LISTENER, DevelopmentSecurity, check_secured, make_development_security, tls_dir
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.security.client_properties import client_properties
from ottla.broker.storage.files import FILES, Files
from ottla.broker.testing.acl_control import AclControl
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.broker_thread import NodeThread
from ottla.broker.testing.controls import ClockControl, FaultControl, TopicControl, as_text
from ottla.broker.testing.counters import Counters, counters_of
from ottla.broker.testing.history import History

HOST = "127.0.0.1"
SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
"""Fewer partitions of internal topics than Kafka's 50, so that a test's broker starts in milliseconds."""


class UnsyncedFiles(Files):
    """The machine's files, which outlive every process of a test without being on its disk. A start and a stop take a third of the
    time."""

    def fsync(self, fd: int) -> None:
        """Left to the kernel."""


TICK_MS = 100
"""The steps of a clock that stands still, while its broker stops."""


class InProcessBroker(NodeThread[Broker]):
    """A broker over `data_dir` (default: a temporary directory). Use as a context manager, or `start` and `stop`.

    `settings` go by Kafka's names; `faults` are rules of `ottla serve --fault`, or one; `port` 0 takes a free one, which a restart keeps;
    with `tls` it makes certificates of its own, and with `users` (passwords by name) only they come in: `client_properties` says how;
    a `clock` that is moved is this broker's alone; one that stands still goes on while a stop waits for clients.
    What is called here blocks until it is done: a coroutine whose own client has to go on meanwhile calls it by `asyncio.to_thread`.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str | float] | None = None,
        *,
        faults: str | Sequence[str] = (),
        clock: Clock | None = None,
        port: int = 0,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = {**SMALL, **{name: as_text(value) for name, value in (settings or {}).items()}}
        self.exit_codes: list[int] = []
        """What the broker would have ended its process with (a failed fsync)."""
        self.script = Faults((parse_rule(rule) for rule in several(faults)), on_crash=self._crash)
        self.faults = FaultControl(self, self.script)
        self.topics = TopicControl(self)
        self.acls = AclControl(self)
        self.history = History(self._topic_name)
        """What clients did since `record`."""
        self._recording = False
        self._clock = clock or MovableClock()
        self.clock = ClockControl(self, self._clock)
        self._port = port
        self._crashed = False
        self._temporary = data_dir is None
        self.files: Files = UnsyncedFiles() if data_dir is None else FILES
        """Its disk, from the next start on."""
        self._tls, self._users = tls, users or {}
        self._security: DevelopmentSecurity | None = None
        super().__init__(Path(tempfile.mkdtemp(prefix="ottla-") if data_dir is None else data_dir))

    @property
    def broker(self) -> Broker:
        """What runs, or ran last; its thread is the broker's (`call`)."""
        return self.node

    @property
    def port(self) -> int:
        """The port; 0 before the first start."""
        return self._port

    @property
    def is_up(self) -> bool:
        """Whether it runs, did not crash, and is not paused."""
        return self.running and not self._crashed and not self.paused

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers. Raises RuntimeError before the first start, which finds the port."""
        if not self._port:
            raise RuntimeError("the broker has no port yet: start it first")
        return f"{HOST}:{self._port}"

    def start(self) -> InProcessBroker:
        """Start it, unless it runs; on the same port as before when it ran already. Raises StartError or OSError."""
        if self.running:
            return self
        self._crashed = False
        import_ahead()
        self.start_loop()
        try:
            self.call_async(self._start())
        except BaseException:
            self.end_loop()
            raise
        self.running = True
        return self

    def client_properties(self, kind: str = "java", user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
        """How a client comes in: for `java` and `librdkafka` the properties, for `kafka-python` and `aiokafka` keyword arguments.

        `user` is one of `users`, by default the first; where nobody logs in, no user. Raises ValueError for another one, and for another
        mechanism than PLAIN and those of SCRAM.
        """
        security = self._security or DevelopmentSecurity(None, {}, {})
        return client_properties(kind, security.connection(self.bootstrap, user, mechanism))

    async def _start(self) -> None:
        name, given = "PLAINTEXT", self.settings
        if self._tls or self._users:
            self._security = make_development_security(self.data_dir, Clock().now_ms(), tls=self._tls, users=self._users)
            name, given = LISTENER, {**self._security.settings, **self.settings}
        wanted = {"log.dir": str(self.data_dir), "listeners": f"{name}://{HOST}:{self._port}", **given}
        settings = load(wanted, {}, None).settings
        settings.users = self._users
        check_secured(settings, tls=self._tls)
        self.node = Broker(settings, self.script, self._environment(), exit_now=self._exit)
        await self.node.start()
        self._port = self.node.address[1]

    def _environment(self) -> Environment:
        return Environment(self._clock, self.files)

    async def _stop(self) -> None:
        """Nobody moves a clock that stands still while this waits: it goes with the loop's until the last client is gone."""
        stopping = asyncio.ensure_future(self.broker.stop())
        if isinstance(self._clock, VirtualClock):
            while not (await asyncio.wait([stopping], timeout=TICK_MS / 1000))[0]:
                self._clock.advance(TICK_MS)
        await stopping

    def _exit(self, code: int) -> None:
        self.exit_codes.append(code)

    def _crash(self) -> None:
        """A scripted `crash`: the thread goes on, without a broker, until `stop`, `kill` or `restart` ends it."""
        self._crashed = True
        self.broker.crash()

    def _topic_name(self, topic_id: bytes) -> str | None:
        found = self.broker.services.partitions.by_topic_id(topic_id)
        return None if found is None else found.name

    def counters(self) -> Counters:
        """What clients have done since the broker's start. Taken before and after, the difference is what a test did:
        `(broker.counters() - before).requests["Produce"]`.
        """
        return self.call(counters_of)

    def record(self) -> InProcessBroker:
        """Keep the history of requests from now on, for `assert_exactly_once`."""
        if not self._recording:
            self._recording = True
            self.script.observe(self.history)
        return self

    def assert_exactly_once(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        expected: Iterable[Hashable] | None = None,
        by: str | Identity = "value",
        audit: bool = True,
    ) -> None:
        """Judge what clients saw and what the logs hold: all topics but the internal ones, or these. Raises NotExactlyOnce with the
        whole story.

        `expected`: what must be readable, each once, and nothing else. `by` says how records are told apart: by "value", by "key", or by a
        function of key and value, whose None leaves a record out. `audit`: also run the audit's rules over the log, where the extra `audit`
        is installed.

        RuntimeError where nothing was recorded, KeyError for a topic that is not there, and TypeError or ValueError for what nothing can be
        equal to (text, where values are bytes) or what contradicts itself (one that is expected twice).
        """
        from ottla.broker.testing.verdict import assert_exactly_once  # noqa: PLC0415 # not every test judges

        if not self._recording:
            raise RuntimeError("nothing was recorded: call record() before the clients begin")
        assert_exactly_once(self, self.history, topics, expected=expected, by=by, audit=audit)

    def stop(self) -> None:
        """A clean stop, as SIGTERM's, or the end of a scripted crash. A temporary directory is removed (`keep` before keeps it)."""
        self.resume()
        if self.running and not self._crashed:
            self.call_async(self._stop())
        if self.running:
            self.end_loop()
        self._remove_temporary()

    def kill(self) -> None:
        """What SIGKILL leaves, as far as one process can show it: no checkpoint, no sync, no clean-shutdown marker."""
        if self.paused:
            self.resume(self.node.crash)
        elif not self._crashed:
            self.call(lambda broker: broker.crash())
        self.end_loop()

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) it and start it again on the same directory and port."""
        temporary, self._temporary = self._temporary, False
        try:
            if kill:
                self.kill()
            else:
                self.stop()
        finally:
            self._temporary = temporary
        self.start()

    def keep(self) -> Path:
        """Leave the directory where it is after the stop; its path."""
        self._temporary = False
        return self.data_dir

    def __enter__(self) -> InProcessBroker:
        try:
            return self.start()
        except BaseException:
            self._remove_temporary()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _remove_temporary(self) -> None:
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            if self._tls:
                shutil.rmtree(tls_dir(self.data_dir), ignore_errors=True)


def several(given: str | Sequence[str]) -> Sequence[str]:
    """One may stand without a list: its letters are meant by nobody."""
    return [given] if isinstance(given, str) else given


def import_ahead() -> None:
    """Import what the broker would import while it serves: a test that imports, too, would do so at the same time in another thread, which
    fails at times in CPython 3.11 where pytest rewrites assertions ("AST constructor recursion depth mismatch", gh-106905)."""
    import ottla.broker.api.produce_lane  # noqa: F401, PLC0415 # no start but a test's needs it

    load_all()
