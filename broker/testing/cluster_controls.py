"""Lets a test create and change the replicated topics of a cluster in its process, and advance the clocks of all nodes. The effect of each
call is complete when the call returns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.rejected import Rejected
from ottla.broker.testing.cluster_nodes import ClusterBroker, ClusterNodes
from ottla.broker.testing.controls import as_text
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k19_create_topics as k19
from ottla.protocol.messages import k43_elect_leaders as k43
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages import k45_alter_partition_reassignments as k45
from ottla.protocol.schema import Message

_PREFERRED: Final = 0
_TOPIC: Final = 2
_DEFAULT: Final = -1


class ClusterTopicControl:
    """Creates, changes and describes the topics of one in-process cluster, without a Kafka client."""

    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str | float] | None = None, *, replicas: int = _DEFAULT) -> str:
        """Create a topic with the settings `configs` (Kafka's topic settings, by name), and return its name. By default, it has three
        replicas, or one on each broker if there are fewer than three brokers. The call returns when each partition has a leader and all
        brokers that reach the controller know the topic. Raises Rejected, for instance if the topic exists."""
        given = [k19.CreatableTopicConfig(key, as_text(value)) for key, value in (configs or {}).items()]
        wanted = k19.CreatableTopic(name, partitions, replicas, configs=given)
        (made,) = self._ask(k19.CreateTopicsRequest([wanted])).topics
        _check(made.error_code, made.error_message)
        self._cluster.wait_until(lambda: self._is_known(name), f"all brokers know {name}")
        for index in range(made.num_partitions):
            self._cluster.wait_until_led(name, index)
        return name

    def configure(self, topic: str, configs: Mapping[str, str | float]) -> None:
        """Change the settings `configs` (Kafka's topic settings, by name) of a topic. Raises Rejected, for instance for an unknown topic or
        an invalid value."""
        given = [k44.AlterableConfig(name, value=as_text(value)) for name, value in configs.items()]
        request = k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(_TOPIC, topic, given)])
        (changed,) = self._ask(request).responses
        _check(changed.error_code, changed.error_message)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the log end offset of the partition's leader; control records count, too. Waits for a leader. Raises KeyError if there is
        no such partition, TimeoutError if it has no leader for 20 seconds."""
        leader = self._cluster.wait_until_led(topic, partition)
        return self._cluster.brokers[leader].topics.end_offset(topic, partition)

    def names(self) -> list[str]:
        """Return the names of the cluster's topics, sorted, without internal topics."""
        return self._cluster.topic_names

    def prefer(self, topic: str, partition: int, n: int) -> None:
        """Make the broker with the id `n` the partition's first replica (the preferred leader), and elect it as the leader. Raises Rejected
        if the broker is not in the ISR, KeyError if there is no such partition."""
        found = self._cluster.registration(topic, partition)
        if n not in found.isr:
            raise Rejected(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {n} is not in the ISR of {topic}-{partition}: {found.isr}")
        order = [n, *(each for each in found.replicas if each != n)]
        wanted = k45.ReassignableTopic(topic, [k45.ReassignablePartition(partition, order)])
        moved = self._ask(k45.AlterPartitionReassignmentsRequest(topics=[wanted])).responses[0].partitions[0]
        _check(moved.error_code, moved.error_message)
        request = k43.ElectLeadersRequest(_PREFERRED, [k43.TopicPartitions(topic, [partition])])
        elected = self._ask(request).replica_election_results[0].partition_result[0]
        if elected.error_code != ErrorCode.ELECTION_NOT_NEEDED:
            _check(elected.error_code, elected.error_message)

    def _ask(self, request: Message) -> Any:
        self._cluster.controller.call(lambda _: None)  # raises with a clear message if it is not running
        with Client("127.0.0.1", self._cluster.controller.port) as client:
            return client.call(request)

    def _is_known(self, name: str) -> bool:
        brokers = [self._cluster.brokers[number] for number in self._cluster.reaching_controller]
        return all(broker.call(lambda node: node.services.topics.topic(name) is not None) for broker in brokers)


class ClusterClockControl:
    """Reads and advances the clocks of all nodes of an in-process cluster; they are advanced together."""

    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        """Return the cluster's time in milliseconds since 1970-01-01 UTC."""
        return self._cluster.controller.clock.now_ms()

    def advance(self, by: timedelta | float) -> None:
        """Advance the clocks of all nodes by a timedelta or by a number of seconds, and run everything that becomes due. For the
        controller, a broker that is dead, paused or cut off was silent during that time, so its session expires if the time is long enough;
        the sessions of other brokers do not. Requests between nodes time out and are retried."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        ms, cluster = round(seconds * 1000), self._cluster
        if cluster.controller.running:
            cluster.controller.call_async(self._advance_controller(cluster.controller.node, ms, cluster.reaching_controller))
        else:
            cluster.controller.clock.advance(ms)
        for broker in cluster.brokers.values():
            if broker.is_up:
                broker.clock.advance(timedelta(milliseconds=ms))
            elif not broker.paused:
                self.catch_up(broker)

    def catch_up(self, broker: ClusterBroker) -> None:
        """Set a broker's clock to the time of the other nodes. This is needed if `advance` was called while the broker was dead or paused.
        Call it on the broker's thread, or while the broker has no thread."""
        broker.movable_clock.advance(self._cluster.controller.clock.ahead_ms - broker.movable_clock.ahead_ms)

    async def _advance_controller(self, node: ControllerNode, ms: int, reaching_controller: list[int]) -> None:
        """Advance the controller's clock by `ms` milliseconds. The brokers in `reaching_controller` keep their sessions, as if each had
        just sent a heartbeat. All other brokers are fenced in the same turn of the event loop, so that a heartbeat that is still in a
        socket's buffer comes too late."""
        clock, state = self._cluster.controller.clock, node.role.state
        clock.advance(ms)
        for broker in state.image.brokers.values():
            if broker.broker_id in reaching_controller and not broker.fenced:
                state.sessions.touch(BrokerIdAndEpoch(broker.broker_id, broker.epoch), clock.mono_ms())
        await node.role.fence_silent()


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise Rejected(ErrorCode.of(code), message or "")
