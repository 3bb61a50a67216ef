"""Counters of a broker's requests, appended records and connections. A test reads them before and after a step, and asserts the
difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.broker.app import Broker
from ottla.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one broker since its last start. `requests` counts requests by API name (such as "Produce"); `messages_in` and `bytes_in`
    count appended records and bytes by topic; `connections` counts accepted connections."""

    requests: Counter[str]
    messages_in: Counter[str]
    bytes_in: Counter[str]
    connections: int
    topic_ids: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """The id of each topic in the counters, by topic name. If a topic was deleted and created again between two counts, their difference
    counts only the new topic."""

    def __sub__(self, before: Counters) -> Counters:
        """Return the difference of each counter since the earlier count `before`. Counters whose difference is 0 are left out."""
        same = {topic for topic, its_id in self.topic_ids.items() if before.topic_ids.get(topic) == its_id}
        return Counters(
            _difference(self.requests, before.requests),
            _difference(self.messages_in, {topic: before.messages_in[topic] for topic in same}),
            _difference(self.bytes_in, {topic: before.bytes_in[topic] for topic in same}),
            self.connections - before.connections,
            self.topic_ids,
        )


def counters_of(broker: Broker) -> Counters:
    """Return the counters of a running broker; call it on the broker's event loop."""
    requests, (by_topic, _) = Counter[str](), broker.services.partitions.appended()
    for (key, _), count in broker.requests.items():
        requests[ApiKey(key).camel_case] += count
    messages = Counter({topic: each.messages for topic, each in by_topic.items()})
    bytes_in = Counter({topic: each.size_bytes for topic, each in by_topic.items()})
    ids = {topic: found.topic_id for topic in by_topic if (found := broker.services.partitions.by_name(topic)) is not None}
    return Counters(requests, messages, bytes_in, broker.connections_made, ids)


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> Counter[str]:
    return Counter({name: more for name, count in after.items() if (more := count - before.get(name, 0))})
