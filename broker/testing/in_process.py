"""A broker in this process, on its own thread and event loop, which any client can reach through a real socket.

Rules:
- Nothing is shared with the caller's thread except through `call`, which runs a function on the broker's thread.
- A restart keeps the port and the data.
- A temporary directory is removed by `stop`, except after a call of `keep`. Files in it are not synced: written data survives a `kill`, as
  the page cache survives SIGKILL, and power losses cannot be tested.

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
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from ottla.broker.api.routes import load_all
from ottla.broker.app import Broker
from ottla.broker.core.clock import Clock, MovableClock, VirtualClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.development_security import LISTENER, DevelopmentSecurity, check_secured, make_development_security, tls_dir
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.preopened_log_dir import PreopenedLogDir
from ottla.broker.security.client_properties import client_properties
from ottla.broker.storage.as_of import AtOffset, truncate_at_moment
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.fork import fork
from ottla.broker.storage.marks import Mark, Marks
from ottla.broker.testing.acl_control import AclControl
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.broker_thread import NodeThread
from ottla.broker.testing.controls import ClockControl, FaultControl, TopicControl, as_text
from ottla.broker.testing.counters import Counters, counters_of
from ottla.broker.testing.history import History

HOST = "127.0.0.1"
SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
"""Settings for tests: the internal topics have fewer partitions than Kafka's 50, so that a broker starts within milliseconds."""


class UnsyncedFiles(Files):
    """The operating system's files, but without fsync: a test's files need to survive its processes, not a power loss. Starts and stops
    take a third of the time that they take with fsync."""

    def fsync(self, fd: int) -> None:
        """Do nothing; the kernel writes the page cache eventually."""


TICK_MS = 100
"""While a broker with a virtual clock stops, its clock is advanced in steps of this many ms, because the stop waits on that clock and
nothing else advances it."""


class InProcessBroker(NodeThread[Broker]):
    """A broker in this process that uses `data_dir` (default: a temporary directory). Use it as a context manager, or call `start` and
    `stop`.

    - `settings` have Kafka's names. `faults` is a fault rule, in the syntax of `ottla serve --fault`, or several. `port` 0 chooses a free
      port, which a restart keeps.
    - `tls` generates certificates; with `users` (passwords by name), clients must authenticate. `client_properties` returns the settings
      that clients need for both.
    - `like` is an older release of Apache Kafka, such as "3.7": the broker answers clients as that release does (default: the environment
      variable OTTLA_LIKE).
    - `clock` replaces the default clock, which a test can advance. A `VirtualClock` advances by itself only while the broker stops.

    Each call blocks until it is done: a coroutine whose own client must continue meanwhile uses `asyncio.to_thread`.
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
        like: str | None = None,
    ) -> None:
        self.settings = {**SMALL, **{name: as_text(value) for name, value in (settings or {}).items()}}
        self.exit_codes: list[int] = []
        """The exit codes with which the broker wanted to end its process, for instance after a failed fsync. In a test, it ends only
        itself."""
        self.script = Faults((parse_rule(rule) for rule in several(faults)), on_crash=self._crash)
        self.faults = FaultControl(self, self.script)
        self.topics = TopicControl(self)
        self.acls = AclControl(self)
        self.history = History(self._topic_name)
        """What clients have sent and received since `record` was called."""
        self._recording = False
        self._clock = clock or MovableClock()
        self.clock = ClockControl(self, self._clock)
        self._port = port
        self._crashed = False
        self._temporary = data_dir is None
        self._read_only = False
        self._marks: Marks[PreopenedLogDir] | None = None
        self.files: Files = UnsyncedFiles() if data_dir is None else FILES
        """The files that the broker uses from its next start on; a test may replace them."""
        self._tls, self._users, self._like = tls, users or {}, like or os.environ.get("OTTLA_LIKE")
        self._security: DevelopmentSecurity | None = None
        super().__init__(Path(tempfile.mkdtemp(prefix="ottla-") if data_dir is None else data_dir))

    @property
    def broker(self) -> Broker:
        """The running broker object; after its end, the last one. Use it only on the broker's own thread (through `call`)."""
        return self.node

    @property
    def port(self) -> int:
        """The port that the broker listens on; 0 before the first start."""
        return self._port

    @property
    def is_up(self) -> bool:
        """Whether the broker runs, has not crashed, and is not paused."""
        return self.running and not self._crashed and not self.paused

    @property
    def bootstrap(self) -> str:
        """The address of the broker, `host:port`. Raises RuntimeError before the first start, which chooses the port."""
        if not self._port:
            raise RuntimeError("the broker has no port yet: start it first")
        return f"{HOST}:{self._port}"

    def start(self) -> InProcessBroker:
        """Start the broker if it does not run already; return this object. A broker that was started before gets the same port again.
        Raises SettingsError for an invalid setting, StartError or OSError if the broker cannot start."""
        if not self.running:
            self._start_on(None)
        return self

    def _start_on(self, preopened: PreopenedLogDir | None) -> None:
        self._crashed = False
        import_ahead()
        self.start_loop()
        try:
            self.call_async(self._start(preopened))
        except BaseException:
            self.end_loop()
            raise
        self.running = True

    def client_properties(self, kind: str = "java", user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
        """Return a client's connection settings: the bootstrap server, TLS and authentication. They are properties for the kinds `java` and
        `librdkafka`, keyword arguments for `kafka-python` and `aiokafka`.

        `user` is one of the broker's `users`, by default the first of them; if the broker has no users, the client does not authenticate.
        Raises ValueError for an unknown kind or user, and for a mechanism other than PLAIN and SCRAM.
        """
        security = self._security or DevelopmentSecurity(None, {}, {})
        return client_properties(kind, security.connection(self.bootstrap, user, mechanism))

    async def _start(self, preopened: PreopenedLogDir | None) -> None:
        if self._tls or self._users:
            self._security = make_development_security(self.data_dir, Clock().now_ms(), tls=self._tls, users=self._users)
        self.node = Broker(self._loaded_settings(), self.script, self._environment(), exit_now=self._exit)
        await self.node.start(preopened)
        self._port = self.node.address[1]

    def _loaded_settings(self) -> BrokerSettings:
        name, given = "PLAINTEXT", self.settings
        if self._security is not None:
            name, given = LISTENER, {**self._security.settings, **self.settings}
        wanted = {"log.dir": str(self.data_dir), "listeners": f"{name}://{HOST}:{self._port}", **given}
        settings = load(wanted, {}, None, like=self._like).settings
        settings.users, settings.read_only = self._users, self._read_only
        check_secured(settings, tls=self._tls)
        return settings

    def _environment(self) -> Environment:
        return Environment(self._clock, self.files)

    async def _stop(self) -> None:
        """Stop the broker. A stop waits for clients on the broker's clock, so a virtual clock is advanced here, because nothing else
        advances it."""
        stopping = asyncio.ensure_future(self.broker.stop())
        if isinstance(self._clock, VirtualClock):
            while not (await asyncio.wait([stopping], timeout=TICK_MS / 1000))[0]:
                self._clock.advance(TICK_MS)
        await stopping

    def _exit(self, code: int) -> None:
        self.exit_codes.append(code)

    def _crash(self) -> None:
        """Handle a `crash` that a fault rule has caused: the broker is gone, but its thread continues until `stop`, `kill` or `restart`."""
        self._crashed = True
        self.broker.crash()

    def _topic_name(self, topic_id: bytes) -> str | None:
        found = self.broker.services.partitions.by_topic_id(topic_id)
        return None if found is None else found.name

    def counters(self) -> Counters:
        """Return the broker's counters since its start. To count the requests of one step, call this before and after the step, and use the
        difference: `(broker.counters() - before).requests["Produce"]`. Raises RuntimeError if the broker does not run."""
        return self.call(counters_of)

    def record(self) -> InProcessBroker:
        """From now on, record what clients send and receive, for `assert_exactly_once`. Return this broker."""
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
        """Compare what clients sent and received with the logs, for the given topics or all except internal ones. Raise NotExactlyOnce,
        with an explanation, if a record was lost, duplicated or reordered, or was read although it was aborted.

        `expected`: the identities of which each must be readable exactly once, and no others. `by` says how records are identified: by
        "value", by "key", or by a function of key and value, which returns None for a record that is not judged. `audit`: also check the
        log's files for violations, as `ottla audit` does, if the extra `audit` is installed.

        Raises RuntimeError if nothing was recorded, or more than 256 MiB; KeyError for an unknown topic; TypeError or ValueError if
        `expected` can never be met (text although values are bytes, or one identity twice).
        """
        from ottla.broker.testing.verdict import assert_exactly_once  # noqa: PLC0415 # only for tests that judge

        if not self._recording:
            raise RuntimeError("nothing was recorded: call record() before the clients begin")
        assert_exactly_once(self, self.history, topics, expected=expected, by=by, audit=audit)

    def stop(self) -> None:
        """Stop the broker cleanly, as SIGTERM does; after a crash by a fault rule, only end its thread. Then remove a temporary directory
        (if `keep` was not called) and all states that `mark` has saved."""
        self._end()
        self._remove_temporary()
        if self._marks is not None:
            self._marks.discard()
            self._marks = None

    def _end(self) -> None:
        self.resume()
        if self.running and not self._crashed:
            self.call_async(self._stop())
        if self.running:
            self.end_loop()

    def kill(self) -> None:
        """Kill the broker as SIGKILL does, as far as this is possible within one process: no checkpoint, no sync, no clean-shutdown marker.
        Raises RuntimeError if the broker does not run."""
        if self.paused:
            self.resume(self.node.crash)
        elif not self._crashed:
            self.call(lambda broker: broker.crash())
        self.end_loop()

    def restart(self, *, kill: bool = False) -> None:
        """Stop the broker (with `kill`: kill it), and start it on the same directory and port. Raises StartError or OSError if the start
        fails."""
        if kill:
            self.kill()
        else:
            self._end()
        self.start()

    def mark(self) -> Mark:
        """Save the broker's present state, and return a mark: pass it to `rewind` to return to this state. `stop` deletes all marks. The
        broker does not answer while its files are saved and copied.

        Raises RuntimeError if the broker does not run or a partition is offline, ForkRefused if the files cannot be copied.
        """
        return self.call_async(self._mark())

    async def _mark(self) -> Mark:
        await self.broker.save()
        if self._marks is None:
            self._marks = Marks(self.data_dir, self._preopen)
        return self._marks.add(self._clock.now_ms(), self.broker.log_dir.mark_as_clean, [self.history.length()])

    def rewind(self, mark: Mark) -> None:
        """Return the broker to the state that `mark` has saved: topics, records, groups, offsets, producers, open transactions, ACLs,
        users, quotas, settings and, if it can be moved, the clock. Whatever was recorded in the history since then is removed, too. Fault
        rules stay. The broker may have been killed meanwhile.

        All connections are closed, and clients connect again to the same port. A test can return to one mark any number of times, and marks
        made later stay valid. Raises ValueError for a mark of another broker, or from before a `stop`.
        """
        if self._marks is None or mark not in self._marks:
            raise ValueError("this mark was made by another broker, or before this one was stopped")
        if self.running:
            self.kill()
        preopened = self._marks.restore(mark)
        if isinstance(self._clock, MovableClock):
            self._clock.rewind_to(mark.now_ms)
        self.history.cut(*mark.histories)
        self._start_on(preopened)
        self._marks.copy_again()

    def _preopen(self, copy: Path, now_ms: int) -> PreopenedLogDir:
        return PreopenedLogDir(self._loaded_settings(), self.script, self._environment(), copy, now_ms)

    def as_of(self, moment: datetime | int | AtOffset) -> InProcessBroker:
        """Start and return a read-only broker on a copy of this broker's data, cut at an earlier moment. Its clients may only read, and
        commit offsets.

        `moment` is a time by this broker's clock (a datetime, or Unix time in ms), or an `AtOffset`: the moment at which a partition's log
        ended at an offset. The new broker's clock continues from the moment. Stop the new broker, or use it as a context manager; this
        broker is not changed. Raises ForkRefused if the state at the moment cannot be restored, for instance because its metadata was
        removed.
        """
        wanted = round(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment
        path, clock = Path(tempfile.mkdtemp(prefix=f".{self.data_dir.name}-as-of-", dir=self.data_dir.parent)), MovableClock()
        path.rmdir()  # a fork makes its directory
        made = InProcessBroker(path, self.settings, clock=clock, tls=self._tls, users=self._users, like=self._like)
        made.files, made._temporary, made._read_only = UnsyncedFiles(), True, True
        try:
            if self.running:
                self.call_async(self._fork(made.data_dir))
            else:
                fork(self.data_dir, made.data_dir)
            clock.rewind_to(truncate_at_moment(made.data_dir, wanted, self._clock.now_ms(), files=made.files))
            return made.start()
        except BaseException:
            made._remove_temporary()
            raise

    async def _fork(self, target: Path) -> None:
        await self.broker.save()
        fork(self.data_dir, target, finish=self.broker.log_dir.mark_as_clean)

    def keep(self) -> Path:
        """Do not remove the temporary data directory at the stop; return its path."""
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
    """Return a list of strings. A single string becomes a list with one item."""
    return [given] if isinstance(given, str) else given


def import_ahead() -> None:
    """Import now the modules that the broker would otherwise import while it serves. Imports on the broker's thread and on the test's
    thread at the same time sometimes fail in CPython 3.11 when pytest rewrites assertions ("AST constructor recursion depth mismatch",
    gh-106905)."""
    import ottla.broker.api.produce_fast_path  # noqa: F401, PLC0415 # only needed ahead of time by tests

    load_all()
