"""A cluster in this process: Ottla's controller and several brokers, each on a thread and an event loop of its own, over real sockets.

Rules: a broker of it is an `InProcessBroker`, with its own faults, history and port; what a test does to one, or between two, is done when
the call returns, what follows from it is waited for (`wait_in_sync`, `wait_until_led`). Nothing is synced to the disk: what was written is
there after a `kill`, as the page cache is after SIGKILL; a power loss is for the simulation (`ottla.broker.sim`).

```python
with InProcessCluster(brokers=3).record() as cluster:
    cluster.topics.create("orders", configs={"min.insync.replicas": "2"})
    produce_something(cluster.client_properties)
    cluster.kill(cluster.leader_of("orders"))
    produce_something(cluster.client_properties)
    cluster.assert_exactly_once()
```
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from random import SystemRandom
from types import TracebackType

from ottla.broker.api.routes import ROUTES_OF_A_MEMBER
from ottla.broker.controller.broker_sessions import Contact
from ottla.broker.controller.leader_changes import broker_fenced
from ottla.broker.controller.state import ControllerState, SoftEffects
from ottla.broker.process import StartError
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.cluster_controls import ClusterClockControl, ClusterTopicControl
from ottla.broker.testing.cluster_nodes import CONTROLLER, ClusterNodes
from ottla.broker.testing.controller_thread import InProcessController
from ottla.broker.testing.in_process import InProcessBroker, import_ahead
from ottla.broker.testing.links import Way


class InProcessCluster(ClusterNodes):
    """So many brokers, with ids from 1, and a controller. Use as a context manager, or `start` and `stop`.

    `data_dir` (default: a temporary directory) gets a folder for each node; `settings` go by Kafka's names and are those of all;
    `faults` are rules that each broker begins with, those of one are in `brokers[n].faults`. What is called here blocks until it is done:
    a coroutine whose own client has to go on meanwhile calls it by `asyncio.to_thread`.
    """

    def __init__(
        self,
        brokers: int = 3,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str | float] | None = None,
        *,
        faults: str | Sequence[str] = (),
    ) -> None:
        super().__init__(brokers, data_dir, settings, faults=faults)
        self._recording = False
        self.topics = ClusterTopicControl(self)
        self.clock = ClusterClockControl(self)

    # --- what clients are told -----------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def client_properties(self) -> dict[str, str]:
        """For any client by Kafka's names: where the cluster is, and to look for a broker that is back at once, not after a second."""
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "100"}

    # --- life ------------------------------------------------------------------------------------------------------------------------

    def start(self) -> InProcessCluster:
        """Start what does not run. Raises StartError or OSError; then nothing runs."""
        _import_ahead()
        try:
            self._layout.format(self._files, SystemRandom().randbytes, self.controller.clock.now_ms())
        except LogDirRefused as error:
            raise StartError(str(error)) from error
        try:
            self.controller.start()
            for number, broker in self.brokers.items():
                broker.settings.update(self._layout.broker_settings(number, self.controller.port))
                broker.settings.pop("listeners")  # its port is its own to keep
            self._all_at_once(InProcessBroker.start)
        except BaseException:
            self.kill_all()
            raise
        return self

    def stop(self) -> None:
        """A clean stop of all that runs, as SIGTERM's, brokers before the controller. A temporary directory is removed without one."""
        if self._temporary:
            self.kill_all()
            shutil.rmtree(self.data_dir, ignore_errors=True)
            return
        self.heal()
        self.controller.resume()
        if self.controller.running:
            self._all_at_once(InProcessBroker.stop)
        self.kill_all()

    def keep(self) -> Path:
        """Leave the directory where it is after the stop; its path."""
        self._temporary = False
        return self.data_dir

    def _all_at_once(self, work: Callable[[InProcessBroker], object]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for done in [pool.submit(work, broker) for broker in self.brokers.values()]:
                done.result()

    def kill_all(self) -> None:
        """Ends every node, as SIGKILL does; the directory stays."""
        nodes: list[InProcessBroker | InProcessController] = [*self.brokers.values(), self.controller]
        for node in nodes:
            if node.running:
                node.kill()

    def __enter__(self) -> InProcessCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # --- what happens to brokers -----------------------------------------------------------------------------------------------------

    def kill(self, n: int) -> None:
        """As SIGKILL ends it: connections are reset, nobody is told, and what was not synced is in its files."""
        self.broker(n).kill()

    def pause(self, n: int) -> None:
        """As SIGSTOP stops it, and a long collection or a machine that swaps: its connections stay, and nothing of it runs."""
        self.broker(n).pause()

    def resume(self, n: int) -> None:
        """It goes on where it was, and learns of what happened meanwhile as it comes."""
        broker = self.broker(n)
        broker.resume(partial(self.clock.catch_up, broker))

    def restart(self, n: int, *, kill: bool = False) -> None:
        """Stop it (or kill it), unless it is dead, and start it again on the same directory and port. Returns when it is let in again:
        after a kill when the controller has missed it (`broker.session.timeout.ms`)."""
        broker = self.broker(n)
        if kill and broker.running:
            broker.kill()
        broker.restart()

    def miss(self, n: int) -> None:
        """The controller gives it up at once, as after `broker.session.timeout.ms` of silence, and elects others. One that still beats is
        let in again."""
        self.controller.call_async(self._miss(self.broker(n).number))

    async def _miss(self, n: int) -> None:
        def fenced(state: ControllerState) -> SoftEffects[None]:
            epoch = state.image.brokers[n].epoch
            return SoftEffects(broker_fenced(state, n), None, lambda _: state.sessions.forget(Contact(n, epoch)))

        await self.controller.node.role.active.run(fenced)

    # --- what happens between them ---------------------------------------------------------------------------------------------------

    def partition(self, *groups: Collection[int]) -> None:
        """Nothing gets from a node of one group to one of another, and nobody is told: `partition({1}, {2, 3})`. Who is in no group
        reaches everybody; the controller, too, is one of them, unless a group has `CONTROLLER`. Clients reach all brokers. Raises KeyError
        for a node that is not there, ValueError where nothing is parted: one group, or a node in two."""
        if len(groups) < 2:
            raise ValueError("a partition is between two groups at least: partition({1}, {2, 3})")
        for group, other in combinations(groups, 2):
            if both := set(group).intersection(other):
                raise ValueError(f"node {both.pop()} is in two of the groups")
            self._links.block(self._between(group, other))

    def isolate_from_controller(self, n: int) -> None:
        """Nothing gets from this broker to the controller or back; other brokers and clients still reach it."""
        self.partition({n}, {CONTROLLER})

    def slow_link(self, a: int, b: int, ms: float) -> None:
        """Whatever one of the two sends to the other takes so long, each way. Raises KeyError for a node that is not there."""
        if ms < 0:
            raise ValueError(f"nothing takes {ms} ms")
        self._links.slow(self._between({a}, {b}), ms)

    def _between(self, some: Collection[int], others: Collection[int]) -> list[Way]:
        for n in (*some, *others):
            if n != CONTROLLER:
                self.broker(n)
        return self._links.between(some, others)

    @property
    def is_cut(self) -> bool:
        """Whether there is a link on which nothing gets through."""
        return bool(self._links.blocked)

    def heal(self) -> None:
        """All links are as in the beginning, and what was held back arrives."""
        self._links.heal()

    # --- who leads -------------------------------------------------------------------------------------------------------------------

    def move_leader(self, topic: str, partition: int, n: int) -> None:
        """Make `n`, which has to be in sync, the leader and the preferred one. Raises Rejected, TimeoutError."""
        self.topics.prefer(topic, partition, n)
        self.wait_until_led(topic, partition, by=n)

    # --- the verdict -----------------------------------------------------------------------------------------------------------------

    def record(self) -> InProcessCluster:
        """Keep the history of requests from now on, for `assert_exactly_once`."""
        self._recording = True
        for broker in self.brokers.values():
            broker.record()
        return self

    def assert_exactly_once(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        expected: Iterable[Hashable] | None = None,
        by: str | Identity = "value",
        audit: bool = True,
    ) -> None:
        """As `InProcessBroker.assert_exactly_once`: what clients saw of all brokers against what the leaders hold; and the audit's rules
        over every replica on a broker that runs, which have to be equal up to what is committed.

        Raises NotExactlyOnce; RuntimeError where nothing was recorded; TimeoutError where a partition has no leader.
        """
        if not self._recording:
            raise RuntimeError("nothing was recorded: call record() before the clients begin")
        from ottla.broker.testing.cluster_verdict import assert_exactly_once  # noqa: PLC0415 # not every test judges

        assert_exactly_once(self, topics, expected=expected, by=by, audit=audit)


def _import_ahead() -> None:
    """As for a broker that is alone, and what a member imports beside that."""
    import ottla.broker.cluster_broker  # noqa: F401, PLC0415 # as there

    import_ahead()
    for route in ROUTES_OF_A_MEMBER.values():
        _ = route.handle
