"""A cluster in this process: a controller and several brokers, each on its own thread and event loop, over real sockets.

Rules:
- Each broker is an `InProcessBroker`, with its own faults, history and port.
- When a call such as `kill` or `partition` returns, the action itself is complete, but not its consequences, such as elections. Wait for
  these with `wait_in_sync` or `wait_until_led`.
- Nothing is synced to disk. Written data survives a `kill`, as the page cache survives SIGKILL; use the simulation (`ottla.broker.sim`) for
  power losses.

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

from ottla.broker.api.routes import broker_routes, load
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.broker.controller.leader_changes import broker_fenced
from ottla.broker.controller.state import ControllerState, EffectsOutsideLog
from ottla.broker.process import StartError
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.marks import Mark, Marks
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.cluster_controls import ClusterClockControl, ClusterTopicControl
from ottla.broker.testing.cluster_marks import mark, rewound_to
from ottla.broker.testing.cluster_nodes import CONTROLLER, ClusterNodes
from ottla.broker.testing.controller_thread import InProcessController
from ottla.broker.testing.in_process import InProcessBroker, import_ahead
from ottla.broker.testing.links import Way


class InProcessCluster(ClusterNodes):
    """A cluster in this process: a controller, and brokers with ids from 1. Use it as a context manager, or call `start` and `stop`.

    `data_dir` (default: a temporary directory) gets a directory for each node. `settings` have Kafka's names and apply to all nodes.
    `faults` are fault rules that each broker starts with; `brokers[n].faults` changes those of one broker. Each call blocks until it is
    done: a coroutine whose own client must continue meanwhile uses `asyncio.to_thread`.
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
        self._marks: Marks[None] | None = None
        self.topics = ClusterTopicControl(self)
        self.clock = ClusterClockControl(self)

    # --- client configuration ------------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of the cluster: the `host:port` of each broker, separated by commas. Raises RuntimeError before the first
        start."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def client_properties(self) -> dict[str, str]:
        """Client properties under Kafka's names: the bootstrap servers, and reconnect intervals of 20 to 100 ms, so that a client finds a
        restarted broker within milliseconds instead of a second."""
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "100"}

    # --- life ------------------------------------------------------------------------------------------------------------------------

    def start(self) -> InProcessCluster:
        """Start all nodes that do not run already. Return this cluster. If a node cannot start, no node runs afterwards; raises
        SettingsError for an invalid setting, otherwise StartError or OSError."""
        _import_ahead()
        try:
            self._layout.format(self._files, SystemRandom().randbytes, self.controller.clock.now_ms())
        except LogDirRefused as error:
            raise StartError(str(error)) from error
        try:
            self.controller.start()
            for number, broker in self.brokers.items():
                broker.settings.update(self._layout.broker_settings(number, self.controller.port))
                broker.settings.pop("listeners")  # the broker keeps its own port
            self._on_all_brokers_at_once(InProcessBroker.start)
        except BaseException:
            self.kill_all()
            raise
        return self

    def stop(self) -> None:
        """Stop the brokers cleanly, as SIGTERM does, then kill the controller. If the data directory is temporary or the controller does
        not run, kill all nodes instead. Then remove a temporary data directory, and all states that `mark` has saved."""
        if self._marks is not None:
            self._marks.discard()
            self._marks = None
        if self._temporary:
            self.kill_all()
            shutil.rmtree(self.data_dir, ignore_errors=True)
            return
        self.heal()
        self.controller.resume()
        if self.controller.running:
            self._on_all_brokers_at_once(InProcessBroker.stop)
        self.kill_all()

    def keep(self) -> Path:
        """Do not remove the temporary data directory at the stop; return its path."""
        self._temporary = False
        return self.data_dir

    def _on_all_brokers_at_once(self, work: Callable[[InProcessBroker], object]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for done in [pool.submit(work, broker) for broker in self.brokers.values()]:
                done.result()

    def kill_all(self) -> None:
        """Kill every node, as SIGKILL does; the data directory stays."""
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

    # --- marks -----------------------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Save the present state of all nodes, and return a mark: pass it to `rewind` to return to this state. `stop` deletes all marks.
        This call waits until all replicas have all records; then no node answers while the files are saved and copied.

        Raises RuntimeError if a node does not run or is paused, or a broker is cut off from the controller; TimeoutError if replicas lag
        for 20 seconds; ForkRefused if the files cannot be copied.
        """
        if self._marks is None:
            self._marks = Marks(self.data_dir)
        return mark(self, self._marks)

    def rewind(self, mark: Mark) -> None:
        """Return all nodes and links to the state that `mark` has saved: topics, records, leaders, ISRs, groups, offsets, producers, open
        transactions, ACLs, users, quotas, settings and the clock. Whatever was recorded in histories since then is removed, too. Fault
        rules stay.

        All connections are closed, and clients connect again to the same ports. A test can return to one mark any number of times, and
        marks made later stay valid. Raises ValueError for a mark of another cluster, or from before a `stop`.
        """
        if self._marks is None or mark not in self._marks:
            raise ValueError("this mark was made by another cluster, or before this one was stopped")
        self.heal()
        self.kill_all()
        self._marks.restore(mark)
        with rewound_to(self, mark):
            self.start()
        self._marks.copy_again()

    # --- faults of brokers -----------------------------------------------------------------------------------------------------------

    def kill(self, n: int) -> None:
        """Kill the broker with the id `n`, as SIGKILL does: there is no controlled shutdown, connections are reset, and the broker's files
        keep everything written. Raises KeyError for an unknown id, RuntimeError if the broker does not run."""
        self.broker(n).kill()

    def pause(self, n: int) -> None:
        """Pause the broker with the id `n`, as SIGSTOP or a long garbage collection does: its connections stay open, and none of its code
        runs. Raises KeyError for an unknown id, RuntimeError if the broker does not run."""
        self.broker(n).pause()

    def resume(self, n: int) -> None:
        """Resume the broker with the id `n`; do nothing if it is not paused. The broker learns what has changed in the cluster only from
        messages that it processes after this call. Raises KeyError for an unknown id."""
        broker = self.broker(n)
        broker.resume(partial(self.clock.catch_up, broker))

    def restart(self, n: int, *, kill: bool = False) -> None:
        """Stop the broker with the id `n` (with `kill`: kill it), start it on the same directory and port, and return when it is unfenced.
        A broker that is already dead is only started. After a kill, this call waits until the controller has ended the old process's
        session, that is, up to `broker.session.timeout.ms`. Raises KeyError for an unknown id, StartError or OSError if the start fails."""
        broker = self.broker(n)
        if kill and broker.running:
            broker.kill()
        broker.restart()

    def fence(self, n: int) -> None:
        """Let the controller fence the broker with the id `n` at once, as if no heartbeat had arrived for `broker.session.timeout.ms`, and
        elect other leaders. If the broker still sends heartbeats, it is unfenced again. Raises KeyError for an unknown id."""
        self.controller.call_async(self._fence(self.broker(n).number))

    miss = fence
    """The name of `fence` in version 0.2; it does the same."""

    async def _fence(self, n: int) -> None:
        def fenced(state: ControllerState) -> EffectsOutsideLog[None]:
            epoch = state.image.brokers[n].epoch
            return EffectsOutsideLog(broker_fenced(state, n), None, lambda _: state.sessions.forget(BrokerIdAndEpoch(n, epoch)))

        await self.controller.node.role.active.run(fenced)

    # --- faults of links -------------------------------------------------------------------------------------------------------------

    def partition(self, *groups: Collection[int]) -> None:
        """Block all traffic between nodes of different groups of node ids: `partition({1}, {2, 3})`. Connections stay open, so no node is
        notified.

        A node that is in no group still reaches all nodes; the controller is in a group only if the group contains `CONTROLLER`. Clients
        reach all brokers. `heal` unblocks the traffic. Raises KeyError for an unknown node, ValueError for fewer than two groups or a node
        in two groups.
        """
        if len(groups) < 2:
            raise ValueError("a partition needs at least two groups: partition({1}, {2, 3})")
        for group, other in combinations(groups, 2):
            if both := set(group).intersection(other):
                raise ValueError(f"node {both.pop()} is in two of the groups")
            self._links.block(self._links_between(group, other))

    def isolate_from_controller(self, n: int) -> None:
        """Block all traffic between the broker with the id `n` and the controller, until `heal`. Other brokers and clients still reach the
        broker. Raises KeyError for an unknown id."""
        self.partition({n}, {CONTROLLER})

    def slow_link(self, a: int, b: int, ms: float) -> None:
        """Delay all traffic between the nodes with the ids `a` and `b` by `ms` milliseconds in each direction, until `heal`. Raises
        KeyError for an unknown node, ValueError for a negative delay."""
        if ms < 0:
            raise ValueError(f"a delay cannot be {ms} ms")
        self._links.slow(self._links_between({a}, {b}), ms)

    def _links_between(self, some: Collection[int], others: Collection[int]) -> list[Way]:
        for n in (*some, *others):
            if n != CONTROLLER:
                self.broker(n)
        return self._links.between(some, others)

    @property
    def is_cut(self) -> bool:
        """Whether traffic between any two nodes is blocked now, by `partition` or `isolate_from_controller`; False again after `heal`."""
        return bool(self._links.blocked)

    def heal(self) -> None:
        """Unblock all links between nodes and remove all delays. Bytes that were held back are delivered."""
        self._links.heal()

    # --- leaders ---------------------------------------------------------------------------------------------------------------------

    def move_leader(self, topic: str, partition: int, n: int) -> None:
        """Make the broker with the id `n` the partition's leader and preferred leader, and wait until it leads. Raises Rejected if the
        broker is not in the ISR, KeyError if there is no such partition, TimeoutError after 20 seconds."""
        self.topics.prefer(topic, partition, n)
        self.wait_until_led(topic, partition, by=n)

    # --- the verdict -----------------------------------------------------------------------------------------------------------------

    def record(self) -> InProcessCluster:
        """From now on, record what clients send and receive, for `assert_exactly_once`. Return this cluster."""
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
        """Compare what clients sent to and received from all brokers with the leaders' logs. The arguments are those of
        `InProcessBroker.assert_exactly_once`. With `audit`, also check the log files of each replica on a running broker, as `ottla audit`
        does, and compare the replicas up to the high watermark.

        Raises NotExactlyOnce if anything is wrong; RuntimeError if nothing was recorded, or more than 256 MiB by one broker; TimeoutError
        if a partition has no leader; KeyError, TypeError and ValueError for invalid arguments.
        """
        if not self._recording:
            raise RuntimeError("nothing was recorded: call record() before the clients begin")
        from ottla.broker.testing.cluster_verdict import assert_exactly_once  # noqa: PLC0415 # only for tests that judge

        assert_exactly_once(self, topics, expected=expected, by=by, audit=audit)


def _import_ahead() -> None:
    """Import before the start those modules that a broker would otherwise import while it serves requests."""
    import ottla.broker.cluster_broker  # noqa: F401, PLC0415 # see import_ahead

    import_ahead()
    load(broker_routes())
