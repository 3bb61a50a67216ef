"""Simulated consumers without a group. They read as Kafka's consumers do: from the leader, in offset order, without aborted records.

Rule: a broker in another leader epoch than the consumer's request rejects it (KIP-320). A leader that does not know yet that its epoch is
over may report OFFSET_OUT_OF_RANGE for records of its successor; Kafka's consumers then look for another leader, and so do these.

Source: KAFKA CompletedFetch.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_judge import partition_at
from ottla.broker.sim.sim_producer import ClientHistory
from ottla.broker.testing.history import KeyValue
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.records.record import iter_records

_FETCH_VERSION: Final = 12
_FETCH_BYTES: Final = 2_000
_WAIT_MS: Final = 500

Delivered = tuple[int, KeyValue]


class SimReader(SimClient):
    """A simulated consumer that reads one partition from its beginning. `delivered` are the records that it has received, `position` is the
    next offset to read."""

    def __init__(
        self, name: str, cluster: SimCluster, random: Random, history: ClientHistory, tp: TopicPartition, *, committed: bool
    ) -> None:
        super().__init__(name, cluster, random)
        self.history, self.tp, self.committed = history, tp, committed
        self.delivered: list[Delivered] = []
        self.position = 0

    async def read(self) -> None:
        """Read the partition and collect the received records in `delivered`, until the client is killed."""
        while True:
            records, self.position = await fetched(self, self.history, self.tp, self.position, committed=self.committed)
            self.delivered += records


async def fetched(
    client: SimClient, history: ClientHistory, tp: TopicPartition, offset: int, *, committed: bool
) -> tuple[list[Delivered], int]:
    """Send a Fetch request to the partition's leader. Return the records from `offset` on, and the next offset to read; after an error,
    pause and return no records and `offset`. If `committed` is true, the isolation level is read_committed. A response that no broker may
    send is recorded in `history.wrong`."""
    leader, epoch = await client.leader_of(tp), client.leader_epoch_of(tp)
    partition = FetchPartition(tp[1], epoch, offset, partition_max_bytes=_FETCH_BYTES)
    topics = [FetchTopic(tp[0], partitions=[partition])]
    request = FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_FETCH_BYTES, isolation_level=int(committed), topics=topics)
    there = _epoch_at(client, leader, tp)
    try:
        answer = await client.call(leader, request, _FETCH_VERSION)
        data: PartitionData = answer.responses[0].partitions[0]
    except (LinkBroken, UnsupportedByPeer, IndexError):
        client.forget_leader(tp)
        await client.pause()
        return [], offset
    if data.error_code in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
        now = _epoch_at(client, leader, tp)
        if there is not None and now is not None and not there <= epoch <= now:
            text = f"answered a fetch of leader epoch {epoch}, but was in epoch {there} before and {now} after it"
            history.wrong.append(f"{client.name}: node {leader} {text}: {tp}")
        if data.error_code == ErrorCode.NONE:
            return opened(data, offset, committed=committed)
        if epoch == client.cluster.controller.partition(*tp).leader_epoch:
            history.wrong.append(f"{client.name} has read {tp} up to {offset}, which is now out of range")
    client.forget_leader(tp)
    await client.pause()
    return [], offset


def _epoch_at(client: SimClient, node: int, tp: TopicPartition) -> int | None:
    """Return the leader epoch of the partition's replica on the broker `node`; None if the broker has no replica. The epoch of a replica
    never decreases."""
    image = client.cluster.image
    partition = partition_at(client.cluster.nodes[node], image.topics[image.topic_ids[tp[0]]], tp[1])
    return None if partition is None else partition.replica.leader_epoch


def opened(data: PartitionData, offset: int, *, committed: bool) -> tuple[list[Delivered], int]:
    """Return what a consumer gets from the partition `data` of a Fetch response: the records from `offset` on, and the next offset. With
    `committed`, leave out records of aborted transactions."""
    found: list[Delivered] = []
    records = bytes(data.records or b"")
    aborting = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()) if committed else []
    aborted: set[int] = set()
    for position, header in split_batches(records):
        while aborting and aborting[0][0] <= header.last_offset:
            aborted.add(aborting.pop(0)[1])
        batch = records[position : position + header.size_bytes]
        if header.is_control:
            if header.record_count and parse_marker(batch).type is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in iter_records(batch):
                at = header.base_offset + record.offset_delta
                if at >= offset:
                    found.append((at, (_bytes(record.key), _bytes(record.value))))
        offset = max(offset, header.next_offset)
    return found, offset


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)
