"""Producer, consumer and admin of any client program, with Python types. Each method sends the program one request, as specified in
client_compat/clients/CONTROL.md.

Every method raises `ClientError` if the client reports an error, `Unsupported` if its API lacks the operation, or `ProgramFailed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from client_compat.clients.control import from_wire, to_wire
from client_compat.clients.options import ConsumerOptions, ProducerOptions
from client_compat.matrix.control import CALL_TIMEOUT_MS, ClientError, Program, Unsupported

Partition = tuple[str, int]
Header = tuple[str, bytes | None]
Mode = Literal["sync", "async"]
POLL_TIMEOUT_MS = 20_000
CONNECT_TIMEOUT_MS = 6_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send. `timestamp` is in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending a record: its acknowledgement, or its error. `offset` is -1 if the client does not report one (acks=0)."""

    partition: int = -1
    offset: int = -1
    timestamp: int | None = None
    error: ClientError | None = None


def places(sent: Sequence[Sent]) -> Sequence[Sent]:
    """Return `sent`, if the client reports the partition of an acknowledged record. Raises `Unsupported` if records were acknowledged and
    the client reports no partition for any of them."""
    if any(one.error is None for one in sent) and all(one.error is not None or one.partition < 0 for one in sent):
        raise Unsupported("its API does not tell where the records that it wrote are")
    return sent


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A consumed record. `timestamp_type` is "create", "append" or None."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp: int
    timestamp_type: str | None


def _record(record: Record) -> dict[str, Any]:
    wire: dict[str, Any] = {"key": to_wire(record.key), "value": to_wire(record.value)}
    if record.headers:
        wire["headers"] = [[name, to_wire(value)] for name, value in record.headers]
    if record.partition is not None:
        wire["partition"] = record.partition
    if record.timestamp is not None:
        wire["timestamp"] = record.timestamp
    return wire


def _sent(result: Mapping[str, Any]) -> Sent:
    if (error := result.get("error")) is not None:
        return Sent(error=ClientError.of(error))
    offset = result.get("offset")
    partition = result.get("partition")
    return Sent(-1 if partition is None else partition, -1 if offset is None else offset, result.get("timestamp"))


def _consumed_record(record: Mapping[str, Any]) -> ConsumedRecord:
    headers = tuple((name, from_wire(value)) for name, value in record.get("headers") or ())
    return ConsumedRecord(
        record["topic"],
        record["partition"],
        record["offset"],
        from_wire(record["key"]),
        from_wire(record["value"]),
        headers,
        record["timestamp"],
        record.get("timestamp_type"),
    )


def _partitions(partitions: Iterable[Partition]) -> list[list[Any]]:
    return [[topic, index] for topic, index in partitions]


def _offsets(rows: Iterable[Sequence[Any]]) -> dict[Partition, int]:
    return {(topic, index): offset for topic, index, offset, *_ in rows}


def _results(results: Mapping[str, Any]) -> dict[str, ClientError | None]:
    return {name: None if error is None else ClientError.of(error) for name, error in results.items()}


@dataclass(slots=True)
class Producer:
    """One producer in a client program; each method sends one request to the program."""

    program: Program
    handle: str

    def send(self, topic: str, records: Iterable[Record], *, mode: Mode = "async", timeout_ms: int = CALL_TIMEOUT_MS) -> list[Sent]:
        """Send the records, wait for every acknowledgement, and return the acknowledgements in the order of the records. If a record
        failed, its `Sent` has the error."""
        wire = [_record(record) for record in records]
        answer = self.program.call("producer.send", handle=self.handle, topic=topic, records=wire, mode=mode, timeout_ms=timeout_ms)
        return [_sent(result) for result in answer["results"]]

    def send_ok(self, topic: str, records: Iterable[Record], *, mode: Mode = "async", timeout_ms: int = CALL_TIMEOUT_MS) -> list[Sent]:
        """Send the records, wait for every acknowledgement, and return the acknowledgements in the order of the records. Raises the first
        record's error if there is one."""
        sent = self.send(topic, records, mode=mode, timeout_ms=timeout_ms)
        for one in sent:
            if one.error is not None:
                raise one.error
        return sent

    def begin(self) -> None:
        self.program.call("producer.begin", handle=self.handle)

    def commit(self) -> None:
        self.program.call("producer.commit", handle=self.handle)

    def abort(self) -> None:
        self.program.call("producer.abort", handle=self.handle)

    def send_offsets(self, consumer: Consumer, offsets: Mapping[Partition, int]) -> None:
        """Add the offsets of a consumer, which is in the same program, to the transaction."""
        rows = [[topic, index, offset] for (topic, index), offset in offsets.items()]
        self.program.call("producer.send_offsets", handle=self.handle, consumer=consumer.handle, offsets=rows)

    def close(self) -> None:
        self.program.call("producer.close", handle=self.handle)


@dataclass(slots=True)
class Consumer:
    """One consumer in a client program; each method sends one request to the program."""

    program: Program
    handle: str

    def subscribe(self, topics: Sequence[str] | None = None, *, pattern: str | None = None) -> None:
        self.program.call("consumer.subscribe", handle=self.handle, topics=None if topics is None else list(topics), pattern=pattern)

    def assign(self, partitions: Iterable[Partition]) -> None:
        self.program.call("consumer.assign", handle=self.handle, partitions=_partitions(partitions))

    def poll(self, count: int, timeout_ms: int = POLL_TIMEOUT_MS) -> list[ConsumedRecord]:
        """Poll until `count` records arrived (more are possible) or the time is over, and return them. Fewer or no records are no error."""
        answer = self.program.call("consumer.poll", handle=self.handle, count=count, timeout_ms=timeout_ms)
        return [_consumed_record(record) for record in answer["records"]]

    def assignment(self) -> set[Partition]:
        answer = self.program.call("consumer.assignment", handle=self.handle)
        return {(topic, index) for topic, index in answer["partitions"]}

    def commit(self, offsets: Mapping[Partition, int | tuple[int, str]] | None = None, *, mode: Mode | None = None) -> None:
        """Commit `offsets`: for each partition, the next offset to read, alone or with the commit's metadata. Without `offsets`, commit the
        positions after the polled records."""
        rows = None
        if offsets is not None:
            rows = [[topic, index, *(at if isinstance(at, tuple) else (at,))] for (topic, index), at in offsets.items()]
        self.program.call("consumer.commit", handle=self.handle, offsets=rows, mode=mode)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        return {partition: offset for partition, (offset, _) in self.committed_metadata(partitions).items()}

    def committed_metadata(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int | None, str]]:
        """Return, for each partition, the group's committed offset (None if there is none) and the metadata that was committed with it."""
        answer = self.program.call("consumer.committed", handle=self.handle, partitions=_partitions(partitions))
        return {(topic, index): (offset, (rest[0] if rest else "") or "") for topic, index, offset, *rest in answer["offsets"]}

    def position(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return _offsets(self.program.call("consumer.position", handle=self.handle, partitions=_partitions(partitions))["offsets"])

    def seek(self, partition: Partition, offset: int | Literal["beginning", "end"]) -> None:
        topic, index = partition
        self.program.call("consumer.seek", handle=self.handle, topic=topic, partition=index, offset=offset)

    def offsets_for_times(self, times: Mapping[Partition, int]) -> dict[Partition, tuple[int | None, int | None]]:
        """Return, for each partition, the offset and the timestamp of the first record at or after the time in milliseconds; both are None
        if there is no such record."""
        rows = [[topic, index, at] for (topic, index), at in times.items()]
        answer = self.program.call("consumer.offsets_for_times", handle=self.handle, times=rows)
        return {(topic, index): (offset, at) for topic, index, offset, at in answer["offsets"]}

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return _offsets(self.program.call("consumer.end_offsets", handle=self.handle, partitions=_partitions(partitions))["offsets"])

    def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return _offsets(self.program.call("consumer.beginning_offsets", handle=self.handle, partitions=_partitions(partitions))["offsets"])

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.program.call("consumer.pause", handle=self.handle, partitions=_partitions(partitions))

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.program.call("consumer.resume", handle=self.handle, partitions=_partitions(partitions))

    def close(self) -> None:
        """Leave the group and close the consumer."""
        self.program.call("consumer.close", handle=self.handle)


@dataclass(slots=True)
class Admin:
    """A client program's admin client for one cluster; each method sends one request to the program."""

    program: Program
    bootstrap: str

    def _call(self, op: str, **arguments: Any) -> dict[str, Any]:
        return self.program.call(f"admin.{op}", bootstrap=self.bootstrap, **arguments)

    def create_topics(
        self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None, *, replication: int = 1
    ) -> dict[str, ClientError | None]:
        """Create topics; `topics` maps names to partition counts. Returns each topic's error or None."""
        wanted: list[dict[str, Any]] = [{"name": name, "partitions": count, "replication": replication} for name, count in topics.items()]
        if configs:
            wanted = [{**one, "configs": dict(configs)} for one in wanted]
        return _results(self._call("create_topics", topics=wanted)["results"])

    def delete_topics(self, topics: Sequence[str]) -> dict[str, ClientError | None]:
        return _results(self._call("delete_topics", topics=list(topics))["results"])

    def list_topics(self) -> list[str]:
        return list(self._call("list_topics")["topics"])

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        """Return rows of `partition`, `leader`, `replicas` and `isr`, ordered by partition."""
        return sorted(self._call("describe_topic", topic=topic)["partitions"], key=lambda row: int(row["partition"]))

    def create_partitions(self, topic: str, count: int) -> None:
        """Increase the topic's partitions to `count`, the new total."""
        self._call("create_partitions", topic=topic, count=count)

    def describe_configs(self, resource: Literal["topic", "broker"], name: str) -> dict[str, str | None]:
        return dict(self._call("describe_configs", resource=resource, name=name)["configs"])

    def alter_configs(
        self, resource: Literal["topic", "broker"], name: str, *, set: Mapping[str, str] | None = None, delete: Sequence[str] = ()
    ) -> None:
        self._call("alter_configs", resource=resource, name=name, set=dict(set or {}), delete=list(delete))

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        """Delete the records before these offsets, given by partition, and return the new low watermarks."""
        rows = [[topic, index, offset] for (topic, index), offset in before.items()]
        return _offsets(self._call("delete_records", offsets=rows)["low"])

    def list_offsets(self, wanted: Mapping[Partition, int | Literal["earliest", "latest", "max_timestamp"]]) -> dict[Partition, int]:
        rows = [[topic, index, at] for (topic, index), at in wanted.items()]
        return _offsets(self._call("list_offsets", offsets=rows)["offsets"])

    def list_groups(self) -> dict[str, tuple[str | None, str | None]]:
        """Return the type and the state of each group, by group id."""
        return {group: (kind, state) for group, kind, state in self._call("list_groups")["groups"]}

    def describe_group(self, group: str) -> dict[str, Any]:
        return self._call("describe_group", group=group)

    def group_offsets(self, group: str) -> dict[Partition, int]:
        return _offsets(self._call("group_offsets", group=group)["offsets"])

    def alter_group_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        rows = [[topic, index, offset] for (topic, index), offset in offsets.items()]
        self._call("alter_group_offsets", group=group, offsets=rows)

    def delete_groups(self, groups: Sequence[str]) -> dict[str, ClientError | None]:
        return _results(self._call("delete_groups", groups=list(groups))["results"])

    def describe_producers(self, partition: Partition) -> list[dict[str, Any]]:
        return list(self._call("describe_producers", partition=list(partition))["producers"])

    def list_transactions(self) -> dict[str, tuple[int, str]]:
        """Return the producer id and the state of each transaction, by transactional id."""
        return {name: (producer_id, state) for name, producer_id, state in self._call("list_transactions")["transactions"]}

    def describe_transaction(self, transactional_id: str) -> dict[str, Any]:
        return self._call("describe_transaction", transactional_id=transactional_id)

    def abort_transaction(self, partition: Partition, start_offset: int) -> None:
        """Abort the hanging transaction of the partition that begins at `start_offset`."""
        self._call("abort_transaction", partition=list(partition), start_offset=start_offset)

    def fence_producers(self, transactional_ids: Sequence[str]) -> None:
        self._call("fence_producers", transactional_ids=list(transactional_ids))

    def describe_cluster(self) -> dict[str, Any]:
        return self._call("describe_cluster")


@dataclass(slots=True)
class Client:
    """A client program that a scenario uses with one broker. `security` are the security settings of its producers and consumers."""

    name: str
    program: Program
    bootstrap: str
    security: Mapping[str, Any] | None = None

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        handle = self.program.new_handle("producer")
        self.program.call("producer.open", handle=handle, bootstrap=self.bootstrap, security=self.security, **options)
        return Producer(self.program, handle)

    def consumer(self, **options: Unpack[ConsumerOptions]) -> Consumer:
        handle = self.program.new_handle("consumer")
        self.program.call("consumer.open", handle=handle, bootstrap=self.bootstrap, security=self.security, **options)
        return Consumer(self.program, handle)

    def connect(self, timeout_ms: int = CONNECT_TIMEOUT_MS) -> int:
        """Let the client connect to its bootstrap servers and request the cluster's brokers; return their number. Raises `ClientError` with
        the reason if the client cannot connect."""
        answer = self.program.call("admin.connect", bootstrap=self.bootstrap, security=self.security, timeout_ms=timeout_ms)
        return int(answer["brokers"])

    @property
    def admin(self) -> Admin:
        return Admin(self.program, self.bootstrap)


def numbered(count: int, *, partition: int | None = None, size: int = 0, start: int = 0) -> list[Record]:
    """Return `count` records whose values are `start`, `start + 1`, … as text, padded with dots to `size` bytes."""
    return [Record(str(number).encode().ljust(size, b"."), partition=partition) for number in range(start, start + count)]
