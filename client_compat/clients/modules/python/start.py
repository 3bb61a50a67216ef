"""Start Kafka with the Python module of testcontainers, as a test does, and produce and consume a record.

start.py kraft|zookeeper IMAGE

Prints the seconds until the module reports the broker as ready.
"""

import sys
import time

from confluent_kafka import Consumer, Producer
from testcontainers.kafka import KafkaContainer

MESSAGE = b"through the module"
TIMEOUT_S = 30

mode, image = sys.argv[1:]
began = time.monotonic()
container = KafkaContainer(image)
with container.with_kraft() if mode == "kraft" else container as kafka:
    seconds = time.monotonic() - began
    bootstrap = kafka.get_bootstrap_server()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("msgs", MESSAGE)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["msgs"])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.value() == MESSAGE
    consumer.close()
print(seconds)
