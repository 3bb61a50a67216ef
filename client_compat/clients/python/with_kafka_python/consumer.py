"""The consumer operations of the control protocol (CONTROL.md), implemented with kafka-python."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import kafka
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from client_compat.clients.control import Answer, Request
from client_compat.clients.python.alike import consumer_settings, offset_rows, only_known, taken_record
from client_compat.clients.python.with_kafka_python.security import keywords
from client_compat.clients.python.with_kafka_python.versions import BEFORE_3, committed, limit

NAME = "kafka-python"
ASSIGNORS = {
    "range": (RangePartitionAssignor,),
    "roundrobin": (RoundRobinPartitionAssignor,),
    "sticky": (StickyPartitionAssignor,),
}
with contextlib.suppress(ImportError):  # 2.0 lacks it
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    ASSIGNORS["cooperative-sticky"] = (CooperativeStickyAssignor,)


def _partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in request["partitions"]]


class Consumer:
    def __init__(self, request: Request) -> None:
        own = only_known(NAME, kafka.__version__, consumer_settings(NAME, request, ASSIGNORS), KafkaConsumer.DEFAULT_CONFIG)
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
            offsets = {TopicPartition(row[0], row[1]): committed(*row[2:4]) for row in rows}
        if request.get("mode", "sync") == "async":
            self._consumer.commit_async(offsets)
        else:
            self._consumer.commit(offsets, **limit(request))

    def committed(self, request: Request) -> Answer:
        rows = []
        for partition in _partitions(request):
            stored = self._consumer.committed(partition, metadata=True, **limit(request))
            found = stored is not None and stored.offset >= 0
            rows.append([*partition, stored.offset if found else None, stored.metadata if found else ""])
        return {"offsets": rows}

    def position(self, request: Request) -> Answer:
        return {"offsets": [[*partition, self._consumer.position(partition, **limit(request))] for partition in _partitions(request)]}

    def seek(self, request: Request) -> None:
        partition, offset = TopicPartition(request["topic"], request["partition"]), request["offset"]
        if offset == "beginning":
            self._consumer.seek_to_beginning(partition)
        elif offset == "end":
            self._consumer.seek_to_end(partition)
        else:
            self._consumer.seek(partition, offset)

    def offsets_for_times(self, request: Request) -> Answer:
        timestamps = {TopicPartition(topic, index): at for topic, index, at in request["times"]}
        found = self._consumer.offsets_for_times(timestamps, **limit(request))
        return {"offsets": [[*partition, one and one.offset, one and one.timestamp] for partition, one in found.items()]}

    def end_offsets(self, request: Request) -> Answer:
        return offset_rows(self._consumer.end_offsets(_partitions(request), **limit(request)))

    def beginning_offsets(self, request: Request) -> Answer:
        return offset_rows(self._consumer.beginning_offsets(_partitions(request), **limit(request)))

    def pause(self, request: Request) -> None:
        self._consumer.pause(*_partitions(request))

    def resume(self, request: Request) -> None:
        self._consumer.resume(*_partitions(request))

    def metadata(self) -> Any:
        """Return the consumer's group metadata, which a producer sends with the offsets of a transaction (KIP-447)."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close(**({} if BEFORE_3 else {"timeout_ms": 30_000}))
