"""spark-sql-kafka-0-10: a batch write is a send, a batch read polls assigned partitions, a stream is a subscription.

Rules:
- Spark does not report partition and offset of written records, so they are null.
- Spark stores offsets in its checkpoint, not in a consumer group, so there are no committed offsets.
"""

from __future__ import annotations

import asyncio
import json
import queue
import re
import time
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from client_compat.clients.control import (
    TIMESTAMP_TYPES,
    Answer,
    Failure,
    Partition,
    Request,
    Unsupported,
    from_wire,
    headers_from_wire,
    settings,
    taken,
)

NAME = "spark"
SCHEMA = "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
PRODUCER: Mapping[str, Any] = {
    "client_id": "kafka.client.id",
    "acks": "kafka.acks",
    "idempotent": "kafka.enable.idempotence",
    "linger_ms": "kafka.linger.ms",
    "batch_bytes": "kafka.batch.size",
    "buffer_bytes": "kafka.buffer.memory",
    "compression": "kafka.compression.type",
    "max_in_flight": "kafka.max.in.flight.requests.per.connection",
    "retries": "kafka.retries",
    "request_timeout_ms": "kafka.request.timeout.ms",
    "delivery_timeout_ms": "kafka.delivery.timeout.ms",
    "max_request_bytes": "kafka.max.request.size",
    "partitioner": ("partitioner", {"default": "java", "murmur2": "java"}),
}
"""The connector's setting for each option of `producer.open` (see `control.settings`). The partitioners `default` and `murmur2` both select
the Java client's default partitioner, which is murmur2."""
CONSUMER: Mapping[str, Any] = {
    "client_id": "kafka.client.id",
    "group": "kafka.group.id",
    "reset": "reset",
    "isolation": "kafka.isolation.level",
    "max_poll_records": "kafka.max.poll.records",
    "fetch_min_bytes": "kafka.fetch.min.bytes",
    "fetch_max_wait_ms": "kafka.fetch.max.wait.ms",
    "fetch_max_bytes": "kafka.fetch.max.bytes",
    "partition_fetch_bytes": "kafka.max.partition.fetch.bytes",
}
EARLIEST = -2
TURN_S = 0.1
_JAVA_ERROR = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+?)Exception")
_KAFKA_NAMES = {"RecordTooLarge": "MESSAGE_TOO_LARGE", "InvalidTopic": "INVALID_TOPIC_EXCEPTION", "Timeout": "REQUEST_TIMED_OUT"}


def failure(error: BaseException) -> Failure | None:
    """Translate an exception of PySpark to an error of the control protocol (CONTROL.md); return None for any other exception. Spark wraps
    the Java client's exception, whose class name is in the text."""
    if not isinstance(error, (PySparkException, Py4JError)):
        return None
    text = str(error)
    kinds = _JAVA_ERROR.findall(text)
    if not kinds:
        return Failure(f"CLIENT:{type(error).__name__}", text[:500])
    name = _KAFKA_NAMES.get(kinds[-1]) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kinds[-1]).upper()
    return Failure(name, text[:500])


class Admin:
    def close(self) -> None:
        """Do nothing, because the connector has no admin client."""


class Producer:
    def __init__(self, spark: SparkSession, request: Request) -> None:
        if request.get("transactional_id"):
            raise Unsupported("spark has no transactions: its sink writes at least once")
        self._spark, self._options = spark, settings(NAME, request, PRODUCER)
        self._options.pop("partitioner", None)
        self._options["kafka.bootstrap.servers"] = request["bootstrap"]

    async def send(self, request: Request) -> Answer:
        """Send the request's records in a thread, because a write blocks for metadata up to max.block.ms, whatever the request's limit.
        Return the result of each record."""
        return await asyncio.to_thread(self._send, request)

    def _send(self, request: Request) -> Answer:
        records = request["records"]
        if any(record.get("timestamp") is not None for record in records):
            raise Unsupported("spark's sink takes topic, partition, key, value and headers, but no timestamp")
        batches = [records] if request.get("mode", "async") == "async" else [[record] for record in records]
        results: list[Answer] = []
        for batch in batches:
            try:
                self._write(request["topic"], batch)
                results += [{"partition": None, "offset": None}] * len(batch)
            except (PySparkException, Py4JError) as error:
                failed = failure(error)
                results += [{"error": (failed or Failure("CLIENT:spark", str(error))).as_json()}] * len(batch)
        return {"results": results}

    def _write(self, topic: str, records: list[Mapping[str, Any]]) -> None:
        rows = [
            (topic, one.get("partition"), from_wire(one.get("key")), from_wire(one.get("value")), headers_from_wire(one) or None)
            for one in records
        ]
        # one task, so that the records keep their order
        frame = self._spark.createDataFrame(rows, SCHEMA).coalesce(1)
        frame.write.format("kafka").options(**self._options).save()

    def close(self) -> None:
        """Do nothing, because Spark caches producers for later writes and closes them itself."""


class Consumer:
    def __init__(self, spark: SparkSession, request: Request) -> None:
        self._spark, self._options = spark, settings(NAME, request, CONSUMER)
        self._reset = self._options.pop("reset", None)
        self._options |= {"kafka.bootstrap.servers": request["bootstrap"], "includeHeaders": True}
        self._places: dict[Partition, int] = {}
        self._query: StreamingQuery | None = None
        self._came: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def subscribe(self, request: Request) -> None:
        if self._reset == "none":
            raise Unsupported("spark has no auto.offset.reset=none: a stream always begins somewhere")
        pattern = request.get("pattern")
        chosen = {"subscribe": ",".join(request["topics"])} if pattern is None else {"subscribePattern": pattern}
        start = {"startingOffsets": self._reset} if self._reset else {}
        stream = self._spark.readStream.format("kafka").options(**self._options, **chosen, **start).load()
        self._query = stream.writeStream.foreachBatch(self._keep).start()

    def _keep(self, frame: DataFrame, number: int) -> None:
        for one in _records(frame):
            self._came.put(one)

    def assign(self, request: Request) -> None:
        if self._reset in {"latest", "none"}:
            raise Unsupported(f"spark's batch read begins at the earliest offset, or at one that is given: it has no {self._reset}")
        self._places = dict.fromkeys(((topic, index) for topic, index in request["partitions"]), EARLIEST)

    def seek(self, request: Request) -> None:
        if request["offset"] == "end" or self._query is not None:
            raise Unsupported(
                "spark's batch read seeks by the offset at which it starts, and cannot start at the end; a stream cannot seek"
            )
        self._places[request["topic"], request["partition"]] = EARLIEST if request["offset"] == "beginning" else request["offset"]

    def poll(self, request: Request) -> Answer:
        ends, records = time.monotonic() + request.timeout_s, []
        while True:
            records += self._streamed() if self._query is not None else self._read()
            if len(records) >= request["count"] or time.monotonic() >= ends:
                return {"records": records}
            time.sleep(TURN_S)

    def _streamed(self) -> list[Answer]:
        assert self._query is not None, "asked for only while there is a stream"
        if (error := self._query.exception()) is not None:
            raise error
        return [self._came.get() for _ in range(self._came.qsize())]

    def _read(self) -> list[Answer]:
        """Read the records after the positions with a batch read, advance the positions, and return the records."""
        chosen: dict[str, list[int]] = {}
        start: dict[str, dict[str, int]] = {}
        for (topic, index), offset in self._places.items():
            chosen.setdefault(topic, []).append(index)
            start.setdefault(topic, {})[str(index)] = offset
        given = {"assign": json.dumps(chosen), "startingOffsets": json.dumps(start), "endingOffsets": "latest"}
        records = _records(self._spark.read.format("kafka").options(**self._options, **given).load())
        for one in records:
            self._places[one["topic"], one["partition"]] = one["offset"] + 1
        return records

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


def _records(frame: DataFrame) -> list[Answer]:
    """Return the records of a DataFrame that Spark's connector read, ordered by partition and offset."""
    columns: list[Column | str] = [
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        "timestampType",
        F.unix_millis("timestamp").alias("at"),
    ]
    return [_taken(row) for row in sorted(frame.select(columns).collect(), key=lambda row: (row.topic, row.partition, row.offset))]


def _taken(row: Row) -> Answer:
    return taken(
        (row.topic, row.partition),
        row.offset,
        key=row.key,
        value=row.value,
        headers=[(one.key, one.value) for one in row.headers or ()],
        timestamp=row.at,
        timestamp_type=TIMESTAMP_TYPES.get(row.timestampType),
    )
