"""kafka-python as a client program. Its own threads send records and heartbeats while a call blocks."""

from __future__ import annotations

import kafka

from client_compat.clients.control import Program, admin_of
from client_compat.clients.python.with_kafka_python.consumer import Consumer
from client_compat.clients.python.with_kafka_python.errors import failure
from client_compat.clients.python.with_kafka_python.producer import Producer
from client_compat.clients.python.with_kafka_python.security import connect


def program() -> Program:
    admin = admin_of("kafka-python", "client_compat.clients.python.with_kafka_python.admin")
    return Program("kafka-python", kafka.__version__, Producer, Consumer, admin, failure, connect)
