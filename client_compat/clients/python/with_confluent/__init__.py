"""confluent-kafka as a client program. librdkafka has its own threads; a call blocks for at most its request's time limit."""

from __future__ import annotations

import confluent_kafka

from client_compat.clients.control import Program
from client_compat.clients.python.with_confluent.admin import Admin
from client_compat.clients.python.with_confluent.consumer import Consumer
from client_compat.clients.python.with_confluent.errors import failure
from client_compat.clients.python.with_confluent.producer import Producer
from client_compat.clients.python.with_confluent.security import connect


def program() -> Program:
    version = f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"
    return Program("confluent-kafka", version, Producer, Consumer, Admin, failure, connect)
