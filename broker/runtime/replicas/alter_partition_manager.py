"""Sends the ISR changes of this broker's leaders to the controller (KIP-497; Kafka's DefaultAlterPartitionManager).

Invariants:
* One AlterPartition request is in flight at a time. It contains every pending proposal; later ones go into the next request.
* A proposal without a result in the response is sent again, and so are all proposals of a failed request. The controller may thus receive a
  proposal twice, which it detects by the partition epoch.
* A proposal that its replica has discarded, for instance because of newer metadata, is not sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final, Protocol

from ottla.broker.core.state_lines import StateLines
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.follower_session import PartitionKey
from ottla.broker.replication.in_sync import Accepted, Proposal
from ottla.broker.runtime.nodes.controller_channel import ControllerUnreachable
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
)
from ottla.protocol.schema import Message

logger = logging.getLogger(__name__)

RETRY_MS: Final = 50


class Channel(Protocol):
    """Sends requests to the active controller: the part of `ottla.broker.runtime.nodes.controller_channel.ControllerChannel` that ISR
    changes and directory assignments need.
    """

    async def call(self, request: Message) -> Any: ...


class AlterPartitionManager:
    """Sends to the controller all ISR changes that leaders on this broker propose. `channel` is the connection to the controller."""

    def __init__(self, channel: Channel, node: int, brokers: Brokers, nursery: Nursery) -> None:
        self._channel = channel
        self._node = node
        self._brokers = brokers
        self._nursery = nursery
        self._pending: dict[PartitionKey, Partition] = {}
        self._lines = StateLines(logger, nursery.clock.mono_ms)
        self._worker = nursery.worker("ISR changes", self._work)

    def submit(self, partition: Partition) -> None:
        """Send to the controller the ISR change that the partition's replica proposes. The request is repeated until the controller has
        accepted or rejected the change, or the replica has discarded it.
        """
        self._pending[partition.log.topic_id, partition.index] = partition
        self._worker.wake()

    async def _work(self) -> None:
        """Send the pending ISR proposals to the controller until none is left."""
        while in_flight := self._take():
            if not self._settle(in_flight, await self._ask(in_flight)):
                await pause(self._nursery.timers, self._nursery.clock, RETRY_MS)

    def _take(self) -> dict[PartitionKey, tuple[Partition, Proposal]]:
        """Return the ISR proposals for the next AlterPartition request. They stay pending until they have a result."""
        proposed = {key: (partition, partition.replica.proposal) for key, partition in self._pending.items()}
        in_flight = {key: (partition, proposal) for key, (partition, proposal) in proposed.items() if proposal is not None}
        self._pending = {key: partition for key, (partition, _) in in_flight.items()}
        return in_flight

    async def _ask(self, in_flight: Mapping[PartitionKey, tuple[Partition, Proposal]]) -> AlterPartitionResponse | None:
        """Send an AlterPartition request with the proposals. Return the response, or None if the whole request must be repeated."""
        proposals = sorted((key, proposal) for key, (_, proposal) in in_flight.items())
        topics = [
            TopicData(topic_id, [_partition_data(index, proposal) for (_, index), proposal in those])
            for topic_id, those in groupby(proposals, key=lambda one: one[0][0])
        ]
        try:
            response: AlterPartitionResponse = await self._channel.call(AlterPartitionRequest(self._node, self._brokers.own_epoch, topics))
        except (ControllerUnreachable, UnsupportedByPeer) as error:
            self._lines.report("trouble", logging.WARNING, "No controller can be asked for in-sync sets; asking again: %s", error)
            return None
        if response.error_code:
            name = ErrorCode.of(response.error_code).name
            self._lines.report("trouble", logging.WARNING, "The controller rejects AlterPartition and is asked again: %s", name)
            return None
        self._lines.ended("trouble", "The controller takes in-sync sets")
        return response

    def _settle(self, in_flight: Mapping[PartitionKey, tuple[Partition, Proposal]], response: AlterPartitionResponse | None) -> bool:
        """Pass each result of the response to its partition. Return False if a proposal of the request has to be sent again."""
        if response is None:
            return False
        results = {(topic.topic_id, result.partition_index): result for topic in response.topics for result in topic.partitions}
        for key, (partition, proposal) in in_flight.items():
            result = results.get(key)
            if result is None:
                continue
            now = partition.replica.proposal
            if now is None or now is proposal:  # otherwise newer metadata has led to another proposal, which stays pending
                self._pending.pop(key, None)
            if not partition.removed:
                partition.proposal_completed(proposal, _answer(result))
        return not any(partition.replica.proposal is proposal and key in self._pending for key, (partition, proposal) in in_flight.items())


def _partition_data(index: int, proposal: Proposal) -> PartitionData:
    return PartitionData(
        index,
        proposal.leader_epoch,
        [member.node for member in proposal.members],  # new_isr, for version 2
        [BrokerState(member.node, member.broker_epoch) for member in proposal.members],
        proposal.recovery_state,
        proposal.partition_epoch,
    )


def _answer(result: PartitionResult) -> Accepted | ErrorCode:
    if result.error_code:
        return ErrorCode.of(result.error_code)
    return Accepted(result.leader_epoch, result.partition_epoch, frozenset(result.isr))
