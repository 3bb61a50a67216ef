"""aiokafka as a client program, on the event loop that reads the requests."""

from __future__ import annotations

import aiokafka

from client_compat.clients.control import Program, admin_of
from client_compat.clients.python.with_aiokafka.consumer import Consumer
from client_compat.clients.python.with_aiokafka.errors import failure
from client_compat.clients.python.with_aiokafka.producer import Producer
from client_compat.clients.python.with_aiokafka.security import connect


def program() -> Program:
    admin = admin_of("aiokafka", "client_compat.clients.python.with_aiokafka.admin")
    return Program("aiokafka", aiokafka.__version__, Producer.open, Consumer.open, admin, failure, connect)
