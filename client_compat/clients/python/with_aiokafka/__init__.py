"""aiokafka as a client program, on the event loop that reads the requests."""

from __future__ import annotations

import aiokafka

from client_compat.clients.control import Program
from client_compat.clients.python.with_aiokafka.admin import Admin
from client_compat.clients.python.with_aiokafka.consumer import Consumer
from client_compat.clients.python.with_aiokafka.errors import failure
from client_compat.clients.python.with_aiokafka.producer import Producer
from client_compat.clients.python.with_aiokafka.security import connect


def program() -> Program:
    return Program("aiokafka", aiokafka.__version__, Producer.open, Consumer.open, Admin.open, failure, connect)
