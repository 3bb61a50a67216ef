"""A consumer group reads a log: each partition has one reader, which commits its position."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException


def read(bootstrap: str, topic: str, count: int) -> list[str]:
    """Read `count` records, in order within each partition; return each as the text `partition/offset value`."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(settings)
    found: list[str] = []
    consumer.subscribe([topic])
    try:
        while len(found) < count:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found.append(f"{message.partition()}/{message.offset()} {(message.value() or b'').decode()}")
            consumer.commit(message=message, asynchronous=False)  # everything up to here is done; a crash repeats what comes after
    finally:
        consumer.close()
    return found


if __name__ == "__main__":
    print("\n".join(read(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
