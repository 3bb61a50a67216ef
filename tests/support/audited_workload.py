"""A workload after which a broker's directory is audited, the same for Ottla and Apache Kafka.

`python -m tests.support.audited_workload DIR` runs it on an Apache Kafka that it starts and kills, and copies the segments and checkpoints
to DIR. This is how tests/golden/kafka_log was made.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS = {"payments": 2, "receipts": 1}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROWS_A_STEP = 6
TIMEOUT_S = 30


def _producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **{name.replace("_", "."): value for name, value in settings.items()}})


class _Rows:
    """Generates values with unique numbers, so that a repeated business key would be a duplicate."""

    def __init__(self) -> None:
        self._next = 0

    def send(self, producer: Producer) -> None:
        for number in range(self._next, self._next + ROWS_A_STEP):
            producer.produce("payments", json.dumps({"row": number}).encode(), partition=number % TOPICS["payments"])
        self._next += ROWS_A_STEP
        assert producer.flush(TIMEOUT_S) == 0


def run(bootstrap: str) -> None:
    """Run idempotent producers with every codec, and transactions that commit, abort, are fenced, and include offsets; leave one open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        future.result(TIMEOUT_S)
    rows = _Rows()
    for codec in CODECS:
        rows.send(_producer(bootstrap, enable_idempotence=True, compression_type=codec))
    rows.send(_producer(bootstrap, enable_idempotence=False))
    writer = _producer(bootstrap, transactional_id="writer")
    writer.init_transactions(TIMEOUT_S)
    for committed in (True, False, True):
        writer.begin_transaction()
        if committed:
            rows.send(writer)
        else:
            writer.produce("payments", b'{"row": "never"}', partition=0)
            writer.flush(TIMEOUT_S)
        (writer.commit_transaction if committed else writer.abort_transaction)(TIMEOUT_S)
    _copy(bootstrap)
    fenced = _producer(bootstrap, transactional_id="fenced")
    fenced.init_transactions(TIMEOUT_S)
    fenced.begin_transaction()
    fenced.produce("payments", b'{"row": "never"}', partition=1)
    fenced.flush(TIMEOUT_S)
    successor = _producer(bootstrap, transactional_id="fenced")
    successor.init_transactions(TIMEOUT_S)
    successor.begin_transaction()
    rows.send(successor)
    successor.commit_transaction(TIMEOUT_S)
    successor.begin_transaction()
    rows.send(successor)


def _copy(bootstrap: str) -> None:
    """Run a consume-transform-produce loop that commits the consumed offsets in the transaction."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "copy", "enable.auto.commit": False, "isolation.level": "read_committed"}
    reader = Consumer(settings)
    place = TopicPartition("payments", 0, 0)
    reader.assign([place])
    copier = _producer(bootstrap, transactional_id="copier")
    copier.init_transactions(TIMEOUT_S)
    for _ in range(2):
        copier.begin_transaction()
        for message in reader.consume(3, TIMEOUT_S):
            copier.produce("receipts", b'{"row": "receipt %d"}' % message.offset(), partition=0)
        copier.send_offsets_to_transaction(reader.position([place]), reader.consumer_group_metadata(), TIMEOUT_S)
        copier.commit_transaction(TIMEOUT_S)
    reader.close()


def main() -> None:
    """Run the workload on Apache Kafka, and copy its logs to the golden directory."""
    from client_compat.audit_corpus.corruption import copy_logs
    from client_compat.kafka.reference import ReferenceBroker

    with tempfile.TemporaryDirectory() as scratch, ReferenceBroker(Path(scratch) / "data") as kafka:
        run(kafka.bootstrap)
        kafka.kill()
        copy_logs(kafka.data_dir, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
