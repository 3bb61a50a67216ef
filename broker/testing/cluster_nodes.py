"""The nodes of a cluster in this process, the network links between them, and methods that read their state. Tests use the subclass
`cluster.InProcessCluster`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from ottla.broker.app import Broker
from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.core.clock import Clock, MovableClock
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.layout import CONTROLLER_ID, Layout, with_replication_settings
from ottla.broker.net.network import Network
from ottla.broker.testing import broker_thread
from ottla.broker.testing.controller_thread import InProcessController
from ottla.broker.testing.controls import as_text
from ottla.broker.testing.in_process import SMALL, InProcessBroker, UnsyncedFiles
from ottla.broker.testing.links import Links

CONTROLLER: Final = CONTROLLER_ID
"""The controller's node id, for `InProcessCluster.partition` and `slow_link`, which take node ids."""
QUICK: Final[Mapping[str, str]] = {
    **SMALL,
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1500",
}
"""Settings with short timeouts for clusters in tests. A dead broker is detected after 1.5 seconds (with Kafka's default: 9), and a follower
that lags leaves the ISR after 1.5 seconds (with Kafka's default: 30)."""
POLL_S: Final = 0.002


class ClusterBroker(InProcessBroker):
    """One broker of a cluster in this process. A real broker ends its process if its disk fails; here, only this broker is killed."""

    def __init__(
        self,
        number: int,
        directory: Path,
        settings: Mapping[str, str],
        faults: str | Sequence[str],
        environment_of: Callable[[Clock], Environment],
    ) -> None:
        self.movable_clock = MovableClock()
        self._environment_of = environment_of
        super().__init__(directory, settings, faults=faults, clock=self.movable_clock)
        self.number = number
        self.incarnation_id: bytes | None = None
        """The incarnation id with which the broker registers at its next start; None for a new random id."""

    def _environment(self) -> Environment:
        return replace(self._environment_of(self._clock), incarnation_id=self.incarnation_id)

    def _exit(self, code: int) -> None:
        super()._exit(code)
        if self.is_up:
            self._crash()


class ClusterNodes:
    """The controller and the brokers of a cluster in this process. It is the base class of `InProcessCluster`, which documents the
    arguments."""

    def __init__(
        self,
        brokers: int,
        data_dir: str | os.PathLike[str] | None,
        settings: Mapping[str, str | float] | None,
        *,
        faults: str | Sequence[str],
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster needs at least one broker, not {brokers}")
        given = {name: as_text(value) for name, value in (settings or {}).items()}
        replicas = {"default.replication.factor": str(min(3, brokers))}
        self.settings = with_replication_settings({**QUICK, **replicas, **given}, given, brokers)
        self._temporary = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix="ottla-") if data_dir is None else data_dir)
        self._layout = Layout(self.data_dir, brokers, port=0)
        self._files, self._links = UnsyncedFiles(), Links()
        self.controller = InProcessController(
            self._layout, lambda own: load({**self.settings, **own}, {}, None).settings, partial(self._environment, CONTROLLER)
        )
        """The controller, on its own thread. It has the methods `kill`, `pause`, `resume` and `restart`, as a broker has."""
        self.brokers = {number: self._broker(number, faults) for number in range(1, brokers + 1)}
        """All brokers of the cluster by id, running or not."""

    def _broker(self, number: int, faults: str | Sequence[str]) -> ClusterBroker:
        return ClusterBroker(number, self._layout.directory_of(number), self.settings, faults, partial(self._environment, number))

    def _environment(self, node: int, clock: Clock) -> Environment:
        network: Network = self._links.network(node)
        return Environment(clock, self._files, network)

    def broker(self, n: int) -> ClusterBroker:
        """Return the broker with the id `n`, running or not. Raises KeyError for an unknown id."""
        if n not in self.brokers:
            raise KeyError(f"there is no broker {n}; the brokers are {', '.join(map(str, self.brokers))}")
        return self.brokers[n]

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads the partition, according to the controller; -1 if the partition has no leader. Raises
        KeyError if there is no such partition."""
        return self.registration(topic, partition).leader

    def in_sync_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the brokers in the partition's ISR, sorted, according to the controller. Raises KeyError if there is no such
        partition."""
        return sorted(self.registration(topic, partition).isr)

    def wait_until_led(self, topic: str, partition: int = 0, *, by: int | None = None) -> int:
        """Wait until a running broker leads the partition and knows that it does; return the broker's id. With `by`, wait until the broker
        with this id leads. Raises TimeoutError after 20 seconds, KeyError if there is no such partition."""

        leader = -1

        def led() -> bool:
            nonlocal leader
            leader = self.leader_of(topic, partition)
            return by in {None, leader} and self._leads(leader, topic, partition)

        self.wait_until(led, f"{topic}-{partition} has a leader" if by is None else f"{topic}-{partition} is led by {by}")
        return leader

    def wait_in_sync(self, topic: str) -> None:
        """Wait until each partition of the topic has a leader, and all replicas on running brokers are in the ISR and have all of the
        leader's records. Raises TimeoutError after 20 seconds, KeyError if there is no such topic."""
        self.wait_until(lambda: self._is_in_sync(topic), f"all replicas of {topic} are in sync")

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until `holds` returns True. Raises TimeoutError after 20 seconds; its text names the condition as `what`."""
        end = monotonic() + broker_thread.TIMEOUT_S
        while not holds():
            if monotonic() > end:
                raise TimeoutError(f"timed out after {broker_thread.TIMEOUT_S:.0f} s waiting until {what}")
            sleep(POLL_S)

    @property
    def topic_names(self) -> list[str]:
        """The names of the cluster's topics, sorted, without internal topics."""
        return sorted(name for name in self.controller.image.topic_ids if not name.startswith("__"))

    @property
    def up(self) -> list[int]:
        """The ids of the brokers that run, have not crashed, and are not paused."""
        return [number for number, broker in self.brokers.items() if broker.is_up]

    @property
    def reaching_controller(self) -> list[int]:
        """The ids of the brokers that run, are not paused, and reach the controller."""
        return [number for number in self.up if (number, CONTROLLER) not in self._links.blocked]

    def registration(self, topic: str, partition: int) -> PartitionRegistration:
        """Return the partition's metadata (leader, replicas, ISR) as the controller has committed it. Raises KeyError if there is no such
        partition."""
        found = self.partitions_of(topic)
        if partition not in found:
            raise KeyError(f"there is no partition {partition} of {topic}, which has {len(found)}")
        return found[partition]

    def partitions_of(self, topic: str) -> Mapping[int, PartitionRegistration]:
        """Return the metadata (leader, replicas, ISR) of each partition of the topic, by partition number, as the controller has committed
        it. Raises KeyError if there is no such topic."""
        image = self.controller.image
        if topic not in image.topic_ids:
            raise KeyError(f"there is no topic {topic!r}; existing topics: {', '.join(self.topic_names) or 'none'}")
        return image.topics[image.topic_ids[topic]].partitions

    def _is_in_sync(self, topic: str) -> bool:
        up = set(self.up)
        return all(
            up.intersection(found.replicas) <= set(found.isr) and self._leads(found.leader, topic, index, all_have_it=True)
            for index, found in self.partitions_of(topic).items()
        )

    def _leads(self, n: int, topic: str, index: int, *, all_have_it: bool = False) -> bool:
        """Return whether the broker with the id `n` leads the partition and knows that it does. With `all_have_it`, return True only if all
        of the partition's records are also committed."""
        if n not in self.up:
            return False

        def leads(node: Broker) -> bool:
            found = next((each for each in node.services.partitions if (each.topic, each.index) == (topic, index)), None)
            return found is not None and found.leads and not (all_have_it and found.log.high_watermark < found.log.log_end_offset)

        return self.brokers[n].call(leads)
