"""The consumer operations of the control protocol (CONTROL.md), implemented with aiokafka."""

from __future__ import annotations

import asyncio
import inspect
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, TopicPartition

from client_compat.clients.control import Answer, Request
from client_compat.clients.python.alike import consumer_settings, offset_rows, only_known, taken_record
from client_compat.clients.python.with_aiokafka.security import keywords

try:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
except ImportError:  # before 0.9 they are kafka-python's
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

ASSIGNORS = {
    "range": (RangePartitionAssignor,),
    "roundrobin": (RoundRobinPartitionAssignor,),
    "sticky": (StickyPartitionAssignor,),
}


def _partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in request["partitions"]]


class Consumer:
    def __init__(self, consumer: AIOKafkaConsumer, group: str | None) -> None:
        self._consumer, self.group = consumer, group
        self._commits: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, request: Request) -> Consumer:
        own = consumer_settings("aiokafka", request, ASSIGNORS)
        only_known("aiokafka", aiokafka.__version__, own, inspect.signature(AIOKafkaConsumer).parameters)
        consumer = AIOKafkaConsumer(bootstrap_servers=request["bootstrap"], **keywords(request), **own)
        try:
            await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
        return cls(consumer, request.get("group"))

    def subscribe(self, request: Request) -> None:
        self._consumer.subscribe(request.get("topics") or (), request.get("pattern"))

    def assign(self, request: Request) -> None:
        self._consumer.assign(_partitions(request))

    async def poll(self, request: Request) -> Answer:
        records: list[Answer] = []
        ends = time.monotonic() + request.timeout_s
        while len(records) < request["count"] and (left := ends - time.monotonic()) > 0:
            got = await self._consumer.getmany(timeout_ms=max(1, int(left * 1000)))
            records += [taken_record(one) for batch in got.values() for one in batch]
        return {"records": records}

    def assignment(self, request: Request) -> Answer:
        return {"partitions": [list(partition) for partition in sorted(self._consumer.assignment())]}

    async def commit(self, request: Request) -> None:
        rows = request.get("offsets")
        offsets = None if rows is None else {TopicPartition(row[0], row[1]): (row[2], row[3]) if row[3:] else row[2] for row in rows}
        task = asyncio.ensure_future(self._consumer.commit(offsets))
        if request.get("mode", "sync") == "async":
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)
            return
        await task

    async def committed(self, request: Request) -> Answer:
        """Return committed offsets. aiokafka does not report their metadata."""
        return {"offsets": [[*partition, await self._consumer.committed(partition), None] for partition in _partitions(request)]}

    async def position(self, request: Request) -> Answer:
        return {"offsets": [[*partition, await self._consumer.position(partition)] for partition in _partitions(request)]}

    async def seek(self, request: Request) -> None:
        partition, offset = TopicPartition(request["topic"], request["partition"]), request["offset"]
        if offset == "beginning":
            await self._consumer.seek_to_beginning(partition)
        elif offset == "end":
            await self._consumer.seek_to_end(partition)
        else:
            self._consumer.seek(partition, offset)

    async def offsets_for_times(self, request: Request) -> Answer:
        found = await self._consumer.offsets_for_times({TopicPartition(topic, index): at for topic, index, at in request["times"]})
        return {"offsets": [[*partition, one and one.offset, one and one.timestamp] for partition, one in found.items()]}

    async def end_offsets(self, request: Request) -> Answer:
        return offset_rows(await self._consumer.end_offsets(_partitions(request)))

    async def beginning_offsets(self, request: Request) -> Answer:
        return offset_rows(await self._consumer.beginning_offsets(_partitions(request)))

    def pause(self, request: Request) -> None:
        self._consumer.pause(*_partitions(request))

    def resume(self, request: Request) -> None:
        self._consumer.resume(*_partitions(request))

    async def close(self) -> None:
        if self._commits:
            await asyncio.wait(self._commits)
        await self._consumer.stop()
