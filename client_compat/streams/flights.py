"""The input of the Kafka Streams application: flights at a constant rate, from an idempotent producer that survives broker restarts. Also
computes the counts that the application must output."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from client_compat.streams.application import StreamsFailed

AIRLINES = ("AA", "B6", "DL", "UA", "WN")
ORIGINS = ("EWR", "JFK", "LGA")
DESTINATIONS = ("ATL", "BOS", "LAX", "MIA", "ORD")
RATE = 1_000
DELIVERY_TIMEOUT_MS = 300_000

Key = tuple[str, str]
"""Identifies a count in the output: (output topic, key)."""


class Feeder:
    """Produces the application's input: RATE flights a second, as long as `step` is called again and again. `expected` has the correct
    counts of all flights sent."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self.expected: Counter[Key] = Counter()
        self._rng, self._failure = rng, ""
        self._topics: Sequence[str] = ()
        self._left, self._began, self._sent = 0, 0.0, 0
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": DELIVERY_TIMEOUT_MS}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 500}, logger=logging.getLogger("flights"))

    def begin(self, topics: Sequence[str], flights: int) -> None:
        """Request that `flights` further flights are sent, in random topics of `topics`. Later calls of `step` send them."""
        self._topics, self._left = topics, self._left + flights
        self._began, self._sent = time.monotonic(), 0

    @property
    def done(self) -> bool:
        """Whether all flights that `begin` requested were sent and acknowledged."""
        return self._left == 0 and len(self._producer) == 0

    def step(self) -> None:
        """Send the flights that are due now at the rate RATE. Raises `StreamsFailed` if a flight could not be delivered."""
        due = int((time.monotonic() - self._began) * RATE) - self._sent
        for _ in range(min(due, self._left)):
            self._send()
        self._producer.poll(0)
        if self._failure:
            raise StreamsFailed(f"the producer of flights failed: {self._failure}")

    def _send(self) -> None:
        airline, origin, destination = (self._rng.choice(names) for names in (AIRLINES, ORIGINS, DESTINATIONS))
        route = f"{origin}-{destination}"
        self._producer.produce(self._rng.choice(self._topics), key=airline, value=route, on_delivery=self._delivered)
        self.expected.update((("by-airline", airline), ("by-route", route), ("by-origin", origin)))
        self._sent += 1
        self._left -= 1

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failure = str(error)
