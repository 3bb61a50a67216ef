"""The consumer operations of CONTROL.md with kafka-python."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

from client_compat.clients.control import Answer, Request
from client_compat.clients.python.alike import consumer_settings, offset_rows, taken_record
from client_compat.clients.python.with_kafka_python.security import keywords

NAME = "kafka-python"
ASSIGNORS = {
    "range": (RangePartitionAssignor,),
    "roundrobin": (RoundRobinPartitionAssignor,),
    "sticky": (StickyPartitionAssignor,),
    "cooperative-sticky": (CooperativeStickyAssignor,),
}


def _partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in request["partitions"]]


class Consumer:
    def __init__(self, request: Request) -> None:
        own = consumer_settings(NAME, request, ASSIGNORS)
        self._consumer = KafkaConsumer(bootstrap_servers=request["bootstrap"], **keywords(request), **own)

    def subscribe(self, request: Request) -> None:
        self._consumer.subscribe(request.get("topics") or (), request.get("pattern"))

    def assign(self, request: Request) -> None:
        self._consumer.assign(_partitions(request))

    def poll(self, request: Request) -> Answer:
        records: list[Answer] = []
        ends = time.monotonic() + request.timeout_s
        while len(records) < request["count"] and (left := ends - time.monotonic()) > 0:
            got = self._consumer.poll(max(1, int(left * 1000)))
            records += [taken_record(one) for batch in got.values() for one in batch]
        return {"records": records}

    def assignment(self, request: Request) -> Answer:
        return {"partitions": [list(partition) for partition in sorted(self._consumer.assignment())]}

    def commit(self, request: Request) -> None:
        rows = request.get("offsets")
        offsets = None
        if rows is not None:
            offsets = {TopicPartition(row[0], row[1]): OffsetAndMetadata(row[2], row[3] if row[3:] else "", -1) for row in rows}
        if request.get("mode", "sync") == "async":
            self._consumer.commit_async(offsets)
        else:
            self._consumer.commit(offsets, timeout_ms=request.timeout_s * 1000)

    def committed(self, request: Request) -> Answer:
        rows = []
        for partition in _partitions(request):
            committed = self._consumer.committed(partition, metadata=True, timeout_ms=request.timeout_s * 1000)
            found = committed is not None and committed.offset >= 0
            rows.append([*partition, committed.offset if found else None, committed.metadata if found else ""])
        return {"offsets": rows}

    def position(self, request: Request) -> Answer:
        limit_ms = request.timeout_s * 1000
        return {"offsets": [[*partition, self._consumer.position(partition, limit_ms)] for partition in _partitions(request)]}

    def seek(self, request: Request) -> None:
        partition, offset = TopicPartition(request["topic"], request["partition"]), request["offset"]
        if offset == "beginning":
            self._consumer.seek_to_beginning(partition)
        elif offset == "end":
            self._consumer.seek_to_end(partition)
        else:
            self._consumer.seek(partition, offset)

    def offsets_for_times(self, request: Request) -> Answer:
        asked = {TopicPartition(topic, index): at for topic, index, at in request["times"]}
        found = self._consumer.offsets_for_times(asked, timeout_ms=request.timeout_s * 1000)
        return {"offsets": [[*partition, one and one.offset, one and one.timestamp] for partition, one in found.items()]}

    def end_offsets(self, request: Request) -> Answer:
        return offset_rows(self._consumer.end_offsets(_partitions(request), timeout_ms=request.timeout_s * 1000))

    def beginning_offsets(self, request: Request) -> Answer:
        return offset_rows(self._consumer.beginning_offsets(_partitions(request), timeout_ms=request.timeout_s * 1000))

    def pause(self, request: Request) -> None:
        self._consumer.pause(*_partitions(request))

    def resume(self, request: Request) -> None:
        self._consumer.resume(*_partitions(request))

    def metadata(self) -> Any:
        """Return the group metadata for a producer's transaction."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close(timeout_ms=30_000)
