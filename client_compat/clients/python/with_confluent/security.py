"""librdkafka's settings for who comes in, and what keeps a client out.

librdkafka tries for ever to come in: what is sent ends in a timeout, and why it is so is told to the application's `error_cb` alone.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from client_compat.clients.control import Request

NAMES = {
    "protocol": "security.protocol",
    "ca": "ssl.ca.location",
    "mechanism": "sasl.mechanism",
    "password": "sasl.password",
}
POLL_S = 0.1


@dataclass(slots=True)
class Door:
    """Why librdkafka is kept out, as long as it is."""

    error: KafkaError | None = None

    def told(self, error: KafkaError) -> None:
        """The `error_cb`. That all brokers are down says less than what went before it."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.error = error

    def check(self) -> None:
        """Raises what keeps the client out."""
        if self.error is not None:
            raise KafkaException(self.error)


def settings(request: Request, door: Door) -> dict[str, Any]:
    given = request.get("security")
    if given is None:
        return {}
    found = {own: given[name] for name, own in NAMES.items() if name in given}
    if (certificate := given.get("certificate")) is not None:
        found |= {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
    if "password" in given:
        found["sasl.username"] = given["user"]
    if (token := given.get("token")) is not None:
        found["oauth_cb"] = lambda _: (token, time.time() + 3_600)
    return found | {"error_cb": door.told}


def connect(request: Request) -> int:
    door = Door()
    own = {"bootstrap.servers": request["bootstrap"], **settings(request, door), "error_cb": door.told}
    producer = Producer(own, logger=logging.getLogger("confluent-kafka"))
    ends = time.monotonic() + request.timeout_s
    while True:
        producer.poll(POLL_S)
        try:
            return len(producer.list_topics(timeout=POLL_S).brokers)
        except KafkaException:
            door.check()
            if time.monotonic() > ends:
                raise
