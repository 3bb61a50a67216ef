"""confluent-kafka as a client program. librdkafka has its own threads; a call blocks for at most its request's time limit."""

from __future__ import annotations

from importlib.metadata import version

import confluent_kafka

from client_compat.clients.control import Program, admin_of
from client_compat.clients.python.with_confluent.consumer import Consumer
from client_compat.clients.python.with_confluent.errors import failure
from client_compat.clients.python.with_confluent.producer import Producer
from client_compat.clients.python.with_confluent.security import connect


def program() -> Program:
    both = f"{version('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})"
    admin = admin_of("confluent-kafka", "client_compat.clients.python.with_confluent.admin")
    return Program("confluent-kafka", both, Producer, Consumer, admin, failure, connect)
