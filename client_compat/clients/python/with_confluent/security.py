"""librdkafka's security settings, and the operation `connect`.

librdkafka retries a failed authentication forever: requests time out, and only the application's `error_cb` gets the reason.
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
class AuthenticationErrors:
    """Stores the last authentication or TLS error that librdkafka reported; `check` raises it."""

    error: KafkaError | None = None

    def store(self, error: KafkaError) -> None:
        """Store an error about authentication or TLS. librdkafka calls this method with every error (`error_cb`). Other errors, such as
        "all brokers are down", are ignored, because they only follow from such an error."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.error = error

    def check(self) -> None:
        """Raise a KafkaException with the error that `store` stored; do nothing if there is none."""
        if self.error is not None:
            raise KafkaException(self.error)


def settings(request: Request, errors: AuthenticationErrors) -> dict[str, Any]:
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
    return found | {"error_cb": errors.store}


def connect(request: Request) -> int:
    errors = AuthenticationErrors()
    own = {"bootstrap.servers": request["bootstrap"], **settings(request, errors), "error_cb": errors.store}
    producer = Producer(own, logger=logging.getLogger("confluent-kafka"))
    ends = time.monotonic() + request.timeout_s
    while True:
        producer.poll(POLL_S)
        try:
            return len(producer.list_topics(timeout=POLL_S).brokers)
        except KafkaException:
            errors.check()
            if time.monotonic() > ends:
                raise
