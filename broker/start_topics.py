"""Creates topics at a broker's start, as requested by `ottla serve --topic orders:6` or by environment variables of container images.

The format is `NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]`, as for `KAFKA_CREATE_TOPICS` of wurstmeister/kafka. An existing topic is not
changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.broker.app import Broker
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.process import StartError
from ottla.broker.runtime.upkeep.timer_driver import pause

_SPEC: Final = re.compile(r"([^:\s]+)(?::(\d+)(?::(\d+)(?::([a-z]+))?)?)?")
_LOOK_MS: Final = 5
_LOOKS_MAX: Final = 6_000


def parsed_topics(text: str) -> list[NewTopic]:
    """Parse topics, each of the form `NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]`, separated by commas or whitespace. Raises
    SettingsError for any other form."""
    return [parsed_topic(item) for item in re.split(r"[,\s]+", text.strip()) if item]


def parsed_topic(text: str) -> NewTopic:
    """Parse one topic of the form `NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]`. Raises SettingsError for any other form."""
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"topic {text!r}: expected NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]], such as orders:6:1:compact")
    name, partitions, replicas, policy = match.groups()
    configs = [("cleanup.policy", policy)] if policy else []
    return NewTopic(name, int(partitions or -1), int(replicas or -1), configs=configs)


async def make_topics(broker: Broker, topics: Sequence[NewTopic]) -> None:
    """Create the topics, and wait until this broker has them in its metadata. Raises StartError if a topic cannot be created."""
    services = broker.services
    try:
        made = await services.topic_maker.create(topics)
    except Rejected as error:
        raise StartError(f"the start's topics cannot be created: {error.code.name} ({error.message})") from error
    for name, refused in made.items():
        if refused is not None:
            raise StartError(f"topic {name} cannot be created: {refused.code.name} ({refused.message})")
    for topic in topics:
        for _ in range(_LOOKS_MAX):
            if services.topics.topic(topic.name) is not None:
                break
            await pause(broker.timers, broker.clock, _LOOK_MS)
        else:
            raise StartError(f"topic {topic.name} was created, but is not known here after {_LOOKS_MAX * _LOOK_MS // 1000} s")
