"""A worker of a share group on confluent-kafka: each record has its effect at least once, in a store of its own. `--result` prints them.

How:
- A record is accepted when its effect is in the store. A crash in between repeats the effect, and never loses it.
- The key is unique in the store: a record that is delivered again has one effect.
- The acknowledgements are sent before more records are fetched. If they fail, the broker delivers the records again.
"""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from client_compat.samples.common import Job, Record, job_of, stop_on_signal
from client_compat.samples.store import Store


def settings(job: Job) -> dict[str, Any]:
    """Return the share consumer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    return {
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "share.acknowledgement.mode": "explicit",
        "reconnect.backoff.max.ms": 250,
        "socket.timeout.ms": 7000,
    }


def run(job: Job, consumer: ShareConsumer, store: Store) -> None:
    """Store the effects of the input topic's records and acknowledge the records, until SIGTERM. Raises KafkaException for an error that
    the client reports while polling."""
    stop = stop_on_signal()
    consumer.subscribe([job.input])
    while not stop.is_set():
        messages = list(map(usable, consumer.poll(0.2)))
        records: list[Record] = [(message.key() or b"", message.value() or b"") for message in messages]
        if not job.makes("accept-before-processing"):
            store.apply_by_key(records)
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        if messages:
            commit(consumer)
        if job.makes("accept-before-processing"):
            store.apply_by_key(records)  # MISTAKE: a crash before this line loses the effects of accepted records


def usable(message: Message) -> Message:
    """Return the message unchanged. Raises KafkaException if it is an error event of librdkafka."""
    error: KafkaError | None = message.error()
    if error is not None:
        raise KafkaException(error)
    return message


def commit(consumer: ShareConsumer) -> None:
    """Send the acknowledgements of the processed records. A failure is only logged, because the broker delivers the records again."""
    try:
        consumer.commit_sync()
    except KafkaException as error:
        print("not acknowledged:", repr(error), file=sys.stderr)


def main() -> int:
    """Run until SIGTERM or a failure; return the exit code."""
    job = job_of("share-consumer", __doc__)
    store = Store(job.work)
    if job.result:
        print(*store.values(), sep="\n")
        return 0
    try:
        with ShareConsumer(settings(job)) as consumer:
            run(job, consumer, store)
    except KafkaException as error:
        print("given up:", repr(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
