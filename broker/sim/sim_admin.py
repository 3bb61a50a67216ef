"""A simulated administrator, who sends requests during faults: it creates, extends, deletes and configures topics, moves replicas, and
elects leaders.

Rules:
- A change that a response has confirmed must be there in the end.
- A request without a response may still be executed later, and so may one that was sent again. So a deleted topic is checked by its topic
  id, not by its name, and a setting of which one change was confirmed must have one of the values that were sent.
- min.insync.replicas is not changed while a partition has an empty ISR. The change would clear the eligible leader replicas (KIP-966), and
  then no replica could ever be elected, as in Kafka. If a change is nevertheless executed in that state, the administrator finally elects
  the replica with the longest log by an unclean election, as a person would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ottla.broker.cluster.image import MetadataImage, PartitionRegistration, ResourceType, TopicImage
from ottla.broker.runtime.nodes.link import LinkBroken
from ottla.broker.sim.metadata_judge import has_no_eligible_leader
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_judge import partition_at
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k43_elect_leaders as k43
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.schema import Message

MIN_ISR: Final = "min.insync.replicas"
RETENTION: Final = "retention.ms"
_EXTRA_MAX: Final = 4
_PARTITIONS_MAX: Final = 4
_PREFERRED, _UNCLEAN = 0, 1
_TIMEOUT_MS: Final = 5_000
_REFUSED_ONLY: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.INVALID_REPLICATION_FACTOR})
"""Errors that prove that a request was not executed and will not be executed later."""


@dataclass
class ConfirmedTopic:
    """The state of a topic that the administrator created, as far as responses have confirmed it."""

    topic_id: bytes
    partitions: int
    deleted: bool = False


class SimAdmin(SimClient):
    """The simulated administrator. `fixed` maps topics to their partition counts: the administrator moves and configures these topics, but
    never deletes them. In the topics `unclean`, it may request unclean elections. Between two requests it waits about `pause_ms` ms."""

    def __init__(
        self, name: str, cluster: SimCluster, random: Random, *, fixed: dict[str, int], unclean: tuple[str, ...], pause_ms: int
    ) -> None:
        super().__init__(name, cluster, random)
        self.fixed, self.unclean, self.pause_ms = fixed, unclean, pause_ms
        self.known: dict[str, ConfirmedTopic] = {}
        self._sent: dict[tuple[str, str], list[str]] = {}
        self._set_for_sure: dict[tuple[str, str], None] = {}
        self.done = 0
        """The number of requests that a response has confirmed."""
        self._made = 0

    async def administer(self, until_ms: int) -> None:
        """Send random admin requests, one after the other, until the virtual time `until_ms`."""
        deeds: list[Callable[[], Awaitable[None]]] = [
            self._create, self._create, self._delete, self._extend, self._set, self._set, self._move, self._move, self._move, self._elect
        ]  # fmt: skip
        while self.loop.now_us < until_ms * 1000:
            await self.random.choice(deeds)()
            await self.pause(self.random.randint(1, 2 * self.pause_ms))

    async def unblock_elections(self) -> None:
        """Every second, unblock partitions that would otherwise stay blocked for ever. Cancel reassignments in which a replica is both
        added and removed, because they never end, as in Kafka (changePartitionReassignment). Elect a leader where no replica is eligible.
        """
        while True:
            image = self.cluster.image
            for topic in image.topics.values():
                for index, now in topic.partitions.items():
                    if set(now.adding_replicas) & set(now.removing_replicas):
                        await self._call(_moves(topic.name, index, None))
                    elif has_no_eligible_leader(image, now) and self.cluster.all_serve():
                        await self.elect_longest(topic, index, now)
            await self.pause(1_000)

    async def elect_longest(self, topic: TopicImage, index: int, now: PartitionRegistration) -> None:
        """Elect the replica that has every committed record: the one whose log ends in the newest epoch, and there at the greatest offset.
        An unclean election elects the first replica; if another one is first, only reorder the replicas now, so that the next call can
        elect."""
        logs = {node: partition_at(self.cluster.nodes[node], topic, index) for node in now.replicas}
        ends = {node: (found.log.epochs.latest, found.log.log_end_offset) for node, found in logs.items() if found is not None}
        longest = max(now.replicas, key=lambda node: ends.get(node, (-1, -1)))
        if longest != now.replicas[0]:
            await self._call(_moves(topic.name, index, [longest, *(node for node in now.replicas if node != longest)]))
        else:
            wanted = [k43.TopicPartitions(topic.name, [index])]
            await self._call(k43.ElectLeadersRequest(_UNCLEAN, wanted, _TIMEOUT_MS))

    def wrong(self, image: MetadataImage) -> list[str]:
        """Return a text for each change that a response has confirmed but that is missing in the metadata `image`."""
        found = []
        for name, known in self.known.items():
            topic = image.topics.get(known.topic_id)
            if known.deleted != (topic is None):
                found.append(f"topic {name} was confirmed to {'be deleted' if known.deleted else 'exist'}, but the metadata says otherwise")
            elif topic is not None and len(topic.partitions) < known.partitions:
                found.append(f"topic {name} has {len(topic.partitions)} of {known.partitions} partitions")
        for name, setting in self._set_for_sure:
            now = image.configs.get((ResourceType.TOPIC, name), {}).get(setting)
            if image.topic(name) is not None and now not in self._sent[name, setting]:
                found.append(f"{setting} of {name} was set, but is {now}")
        return found

    # --- its requests --------------------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        if len(self._existing_topics()) >= _EXTRA_MAX:
            return
        self._made += 1
        name, count = f"extra{self._made}", self.random.randint(1, 3)
        configs = [CreatableTopicConfig(RETENTION, "86400000")] if self.random.random() < 0.5 else []
        topic = CreatableTopic(name, count, self.random.choice([2, 3]), configs=configs)
        answer = await self._call(CreateTopicsRequest([topic], _TIMEOUT_MS))
        if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
            self.known[name] = ConfirmedTopic(answer.topics[0].topic_id, count)
            self.done += 1

    async def _delete(self) -> None:
        if name := self._random_topic():
            answer = await self._call(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=_TIMEOUT_MS))
            if self._record_result(name, None if answer is None else answer.responses[0].error_code):
                self.known[name].deleted = True

    async def _extend(self) -> None:
        name = self._random_topic()
        if not name or self.known[name].partitions >= _PARTITIONS_MAX:
            return
        count = self.known[name].partitions + 1
        answer = await self._call(CreatePartitionsRequest([CreatePartitionsTopic(name, count)], _TIMEOUT_MS))
        if self._record_result(name, None if answer is None else answer.results[0].error_code):
            self.known[name].partitions = count

    async def _set(self) -> None:
        """Change min.insync.replicas of a topic in `fixed`, or retention.ms of a topic that the administrator created."""
        name = self._random_topic() if self.random.random() < 0.3 else self.random.choice(list(self.fixed))
        if not name or name in self.unclean or (name in self.fixed and not self._is_led(name)):
            return
        setting, value = (MIN_ISR, str(self.random.randint(1, 2))) if name in self.fixed else (RETENTION, str(10**8 + self._made))
        self._sent.setdefault((name, setting), []).append(value)
        resource = AlterConfigsResource(ResourceType.TOPIC, name, [AlterableConfig(setting, 0, value)])
        answer = await self._call(IncrementalAlterConfigsRequest([resource]))
        if answer is not None and answer.responses[0].error_code == ErrorCode.NONE:
            self._set_for_sure[name, setting] = None
            self.done += 1

    async def _move(self) -> None:
        """Move the replicas of a partition, or reorder them; sometimes cancel a reassignment."""
        there = {**self.fixed, **{name: self.known[name].partitions for name in self._existing_topics()}}
        name = self.random.choice(list(there))
        replicas = self.random.sample(list(self.cluster.nodes), self.random.choice([2, 2, 3]))
        wanted = None if self.random.random() < 0.2 else replicas
        answer = await self._call(_moves(name, self.random.randrange(there[name]), wanted))
        if answer is not None and answer.responses and answer.responses[0].partitions[0].error_code == ErrorCode.NONE:
            self.done += 1

    async def _elect(self) -> None:
        """Elect the preferred leaders of all partitions, or request an unclean election of one topic."""
        if self.unclean and self.random.random() < 0.5:
            wanted = [k43.TopicPartitions(name, list(range(self.fixed[name]))) for name in self.unclean]
            answer = await self._call(k43.ElectLeadersRequest(_UNCLEAN, wanted, _TIMEOUT_MS))
        else:
            answer = await self._call(k43.ElectLeadersRequest(_PREFERRED, None, _TIMEOUT_MS))
        self.done += answer is not None and answer.error_code == ErrorCode.NONE

    # --- its knowledge -------------------------------------------------------------------------------------------------------------

    def _existing_topics(self) -> list[str]:
        return [name for name, known in self.known.items() if not known.deleted]

    def _random_topic(self) -> str | None:
        there = self._existing_topics()
        return self.random.choice(there) if there else None

    def _is_led(self, name: str) -> bool:
        image = self.cluster.image
        return all(each.isr for each in image.topics[image.topic_ids[name]].partitions.values())

    def _record_result(self, name: str, error: int | None) -> bool:
        """Process the result of a request about the topic `name`: count a success and return True, otherwise return False. `error` is None
        if there was no response. In that case, or after an error that may hide a success, the topic is no longer checked."""
        if error == ErrorCode.NONE:
            self.done += 1
            return True
        if error is None or error not in _REFUSED_ONLY:
            del self.known[name]
        return False

    async def _call(self, request: Message) -> Any:
        """Send a request to a random broker; return the response, or None if there was none."""
        try:
            return await self.call(self.random.choice(list(self.cluster.nodes)), request)
        except LinkBroken:
            await self.pause()
            return None


def _moves(topic: str, index: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    """Build a request to reassign a partition; without replicas, to cancel the reassignment."""
    return AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[ReassignableTopic(topic, [ReassignablePartition(index, replicas)])])
