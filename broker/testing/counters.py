"""What clients did to a broker, as numbers that a test takes before and after."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.app import Broker


@dataclass(frozen=True, slots=True)
class Counters:
    """Since the broker's start; it begins anew with each. `requests` by the API's name ("Produce"), `messages_in` and `bytes_in` by topic,
    as appended; `connections` that were made."""

    requests: Counter[str]
    messages_in: Counter[str]
    bytes_in: Counter[str]
    connections: int

    def __sub__(self, before: Counters) -> Counters:
        """What was done in between; what was not is 0."""
        return Counters(
            _difference(self.requests, before.requests),
            _difference(self.messages_in, before.messages_in),
            _difference(self.bytes_in, before.bytes_in),
            self.connections - before.connections,
        )


def counters_of(broker: Broker) -> Counters:
    """Those of a running broker; call it on the broker's loop."""
    requests, (by_topic, _) = Counter[str](), broker.services.partitions.appended()
    for (key, _), count in broker.requests.items():
        requests[ApiKey(key).camel_case] += count
    messages = Counter({topic: each.messages for topic, each in by_topic.items()})
    bytes_in = Counter({topic: each.size_bytes for topic, each in by_topic.items()})
    return Counters(requests, messages, bytes_in, broker.connections_made)


def _difference(after: Counter[str], before: Counter[str]) -> Counter[str]:
    return Counter({name: count - before[name] for name, count in after.items() if count != before[name]})
