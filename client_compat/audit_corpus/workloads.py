"""Workloads of real clients. After each one, `ottla audit` checks the broker's data directory.

A workload does only what Kafka allows, and some kill the broker. The audit must therefore find no violation and no warning.

Rules:
- A workload uses only `bootstrap`, and the broker's process to kill and restart it.
- All waiting has a time limit.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command

TIMEOUT_S = 60
RETRY_S = 0.1
NOT_YET = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS})
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLEANED_S = 40.0
"""How long, in seconds, a workload waits for the log cleaner. If the cleaner takes longer, the workload fails and nothing is audited."""


class AnyBroker(Protocol):
    """The methods of a broker process, Ottla's or Apache Kafka's, that a workload calls."""

    data_dir: Path

    @property
    def bootstrap(self) -> str:
        """Return the broker's bootstrap server, host:port."""

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""

    def start(self) -> object:
        """Start the broker, or restart it with the same directory and port."""


class Workload(NamedTuple):
    """A workload of real clients, after which the broker's directory is audited. `settings` are the broker's settings. `killed`: the broker
    is ended with SIGKILL before the audit, not stopped cleanly."""

    run: Callable[[AnyBroker], None]
    settings: Mapping[str, str] = {}
    killed: bool = False


class WorkloadFailed(RuntimeError):
    """Raised when a broker or a client did not do what the workload needs."""


def _producer(broker: AnyBroker, **settings: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "log_level": 0, **{k.replace("_", "."): v for k, v in settings.items()}}
    )


def _topics(broker: AnyBroker, partitions: int, *names: str, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings) for name in names]).values():
        future.result(TIMEOUT_S)


def _flush(producer: Producer) -> None:
    left = producer.flush(TIMEOUT_S)
    if left:
        raise WorkloadFailed(f"{left} records were not acknowledged in {TIMEOUT_S} s")


def _send(producer: Producer, topic: str, numbers: range, partitions: int = 2, keys: int = 1_000_000) -> None:
    for number in numbers:
        value = json.dumps({"row": f"{topic}-{number}"}).encode()
        producer.produce(topic, value, b"k%d" % (number % keys), partition=number % partitions)
    _flush(producer)


def idempotence(broker: AnyBroker) -> None:
    """Run parallel producers: one with each codec, one without idempotence, and one that restarts with a new producer id."""
    _topics(broker, 2, "rows")
    producers = [_producer(broker, compression_type=codec, enable_idempotence=True) for codec in CODECS]
    producers.append(_producer(broker, enable_idempotence=False))
    for turn in range(10):
        for at, producer in enumerate(producers):
            _send(producer, "rows", range(1000 * turn + 100 * at, 1000 * turn + 100 * at + 20))
    _send(_producer(broker, enable_idempotence=True), "rows", range(50_000, 50_100))


def transactions(broker: AnyBroker) -> None:
    """Produce in transactions: commits, aborts, fencing, an empty transaction, and a transaction left open by a killed client."""
    _topics(broker, 2, "payments")
    writer = _producer(broker, transactional_id="writer")
    writer.init_transactions(TIMEOUT_S)
    for turn in range(12):
        writer.begin_transaction()
        if turn % 5:
            _send(writer, "payments", range(100 * turn, 100 * turn + 10), partitions=1 + turn % 2)
        (writer.abort_transaction if turn % 3 == 2 else writer.commit_transaction)(TIMEOUT_S)
    for life in range(3):
        successor = _producer(broker, transactional_id="fenced")
        successor.init_transactions(TIMEOUT_S)
        successor.begin_transaction()
        _send(successor, "payments", range(5000 + 100 * life, 5010 + 100 * life))
    _copy(broker, "payments", "receipts")
    open_ = _producer(broker, transactional_id="open")
    open_.init_transactions(TIMEOUT_S)
    open_.begin_transaction()
    _send(open_, "payments", range(9000, 9010))


def _copy(broker: AnyBroker, source: str, target: str) -> None:
    """Copy partition 0 of the topic `source` to `target` in transactions that include the offsets. Two members of one group do this, one
    after the other."""
    _topics(broker, 1, target)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "copy", "enable.auto.commit": False}
    for life in range(2):
        reader = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
        place = TopicPartition(source, 0)
        place.offset = max(_committed(reader, place), 0)
        reader.assign([place])
        copier = _producer(broker, transactional_id=f"copier-{life}")
        copier.init_transactions(TIMEOUT_S)
        for turn in range(3):
            messages = reader.consume(5, 10)
            copier.begin_transaction()
            for message in messages:
                copier.produce(target, message.value(), partition=0)
            copier.send_offsets_to_transaction(reader.position([place]), reader.consumer_group_metadata(), TIMEOUT_S)
            if turn == 1:
                copier.abort_transaction(TIMEOUT_S)
                reader.seek(TopicPartition(source, 0, messages[0].offset() or 0) if messages else place)
            else:
                copier.commit_transaction(TIMEOUT_S)
        reader.close()


def _committed(reader: Consumer, place: TopicPartition) -> int:
    """Return the offset that `reader`'s group has committed for the partition `place`, negative if none. Retries while the coordinator is
    not ready, shortly after the creation of its topic."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            (committed,) = reader.committed([place], TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return int(committed.offset)


def kills(broker: AnyBroker) -> None:
    """Run idempotent and transactional producers without a pause while the broker is killed three times."""
    _topics(broker, 2, "through-kills")
    plain = _producer(broker, enable_idempotence=True, retry_backoff_ms=50)
    writer = _producer(broker, transactional_id="survivor", retry_backoff_ms=50)
    writer.init_transactions(TIMEOUT_S)
    number = 0
    for life in range(4):
        writer.begin_transaction()
        for _ in range(200):
            for producer in (plain, writer):
                producer.produce("through-kills", b'{"row": %d}' % number, partition=number % 2)
                number += 1
            plain.poll(0)
        if life < 3:
            broker.kill()
            broker.start()
        _flush(plain)
        _flush(writer)
        writer.commit_transaction(TIMEOUT_S)


def compaction(broker: AnyBroker) -> None:
    """Write to compacted topics until the cleaner has run: plain and transactional records with few keys, tombstones, emptied batches."""
    _topics(broker, 1, "table", cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.01", delete_retention_ms="100")
    plain = _producer(broker, enable_idempotence=True)
    writer = _producer(broker, transactional_id="table-writer")
    writer.init_transactions(TIMEOUT_S)
    deadline = time.monotonic() + CLEANED_S
    turn = 0
    while turn < 12 or not _cleaned(broker, "table"):
        if time.monotonic() > deadline:
            raise WorkloadFailed(f"the cleaner has not been in the topic after {CLEANED_S:.0f} s")
        _send(plain, "table", range(20 * turn, 20 * turn + 20), partitions=1, keys=7)
        writer.begin_transaction()
        _send(writer, "table", range(20 * turn, 20 * turn + 10), partitions=1, keys=5)
        plain.produce("table", None, b"k%d" % (turn % 7), partition=0)
        _flush(plain)
        (writer.abort_transaction if turn % 2 else writer.commit_transaction)(TIMEOUT_S)
        time.sleep(0.25)  # segments roll by time here
        turn += 1


def _cleaned(broker: AnyBroker, topic: str) -> bool:
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return False
    rows = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
    return any(len(row) == 3 and row[0] == topic and int(row[2]) > 100 for row in rows)


def deleted_heads(broker: AnyBroker) -> None:
    """Call DeleteRecords with offsets in the middle of batches and of completed transactions, so that the logs begin there."""
    _topics(broker, 1, "short")
    plain = _producer(broker, enable_idempotence=True)
    writer = _producer(broker, transactional_id="short-writer")
    writer.init_transactions(TIMEOUT_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for turn in range(5):
        _send(plain, "short", range(100 * turn, 100 * turn + 30), partitions=1)
        writer.begin_transaction()
        _send(writer, "short", range(100 * turn + 50, 100 * turn + 60), partitions=1)
        (writer.abort_transaction if turn % 2 else writer.commit_transaction)(TIMEOUT_S)
        for future in admin.delete_records([TopicPartition("short", 0, 35 * turn + 7)]).values():
            future.result(TIMEOUT_S)


def forgotten_producers(broker: AnyBroker) -> None:
    """Let a producer pause for longer than producer.id.expiration.ms, and continue."""
    _topics(broker, 1, "rare")
    producer = _producer(broker, enable_idempotence=True)
    _send(producer, "rare", range(30), partitions=1)
    time.sleep(3)  # longer than producer.id.expiration.ms below, which is the subject
    with suppress(WorkloadFailed):  # the client may refuse to continue; then the log has fewer records
        _send(producer, "rare", range(30, 60), partitions=1)
    _send(_producer(broker, enable_idempotence=True), "rare", range(60, 90), partitions=1)


def java_copier(broker: AnyBroker) -> None:
    """Run the program of Kafka's exactly-once system test: the Java client copies a topic in transactions (version 2), with random
    aborts."""
    _topics(broker, 1, "source", "copies")
    _send(_producer(broker, enable_idempotence=True), "source", range(300), partitions=1)
    options = {
        "--input-topic": "source", "--input-partition": "0", "--output-topic": "copies", "--broker-list": broker.bootstrap,
        "--max-messages": "300", "--consumer-group": "copier", "--transaction-size": "20", "--transactional-id": "java-copier",
    }  # fmt: skip
    arguments = [word for pair in options.items() for word in pair] + ["--enable-random-aborts", "--use-group-metadata"]
    command = java_command(default_version(), "org.apache.kafka.tools.TransactionalMessageCopier", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise WorkloadFailed(f"TransactionalMessageCopier ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")


WORKLOADS: dict[str, Workload] = {
    "idempotence": Workload(idempotence),
    "transactions": Workload(transactions, killed=True),
    "kills": Workload(kills, killed=True),
    "compaction": Workload(compaction, {"log.cleaner.backoff.ms": "200"}),
    "deleted_heads": Workload(deleted_heads),
    "forgotten_producers": Workload(
        forgotten_producers, {"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "200"}
    ),
    "java_copier": Workload(java_copier),
}
