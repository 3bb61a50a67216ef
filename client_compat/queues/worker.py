"""The worker of a share group, which processes a topic as a queue. Any number of workers take records of one partition, and acknowledge
each record individually."""

from __future__ import annotations

import sys
from collections.abc import Callable

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class RetryLater(Exception):
    """Raised by the function that does a job, if the job cannot be done now: the worker releases the record, so that another worker may try
    it."""


def work(bootstrap: str, topic: str, do: Callable[[str], None], *, count: int) -> list[str]:
    """Take records of `topic` from a share group, and call `do` with the value of each, until `count` jobs are done or rejected. Return the
    values of these jobs. Raises KafkaException if a poll fails."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "workers", "share.acknowledgement.mode": "explicit"}
    finished: list[str] = []
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        while len(finished) < count:
            for message in consumer.poll(1.0):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                job = (message.value() or b"").decode()
                kind = _done(do, job)
                consumer.acknowledge(message, kind)
                if kind != RELEASE:
                    finished.append(job)
            consumer.commit_sync()  # only what was acknowledged here is never delivered again
    return finished


def _done(do: Callable[[str], None], job: str) -> AcknowledgeType:
    """Call `do` with the job, and return how to acknowledge its record: ACCEPT, RELEASE after `RetryLater`, REJECT after ValueError. Other
    exceptions are not caught."""
    try:
        do(job)
    except RetryLater:
        return RELEASE
    except ValueError:
        return REJECT
    return ACCEPT


if __name__ == "__main__":
    print("\n".join(work(sys.argv[1], sys.argv[2], print, count=int(sys.argv[3]))))
