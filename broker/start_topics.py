"""Topics that a broker makes at its start: `ottla serve --topic orders:6`, and the variables that images know.

`NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]`, as `KAFKA_CREATE_TOPICS` of wurstmeister/kafka. A topic that is there stays as it is.
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
    """Of a list that is separated by commas or blanks. Raises SettingsError."""
    return [parsed_topic(item) for item in re.split(r"[,\s]+", text.strip()) if item]


def parsed_topic(text: str) -> NewTopic:
    """Raises SettingsError."""
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"topic {text!r}: a topic is NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]], such as orders:6:1:compact")
    name, partitions, replicas, policy = match.groups()
    configs = [("cleanup.policy", policy)] if policy else []
    return NewTopic(name, int(partitions or -1), int(replicas or -1), configs=configs)


async def make_topics(broker: Broker, topics: Sequence[NewTopic]) -> None:
    """Returns when all of them are known here. Raises StartError where one cannot be made."""
    services = broker.services
    try:
        made = await services.topic_maker.create(topics)
    except Rejected as error:
        raise StartError(f"the topics of the start cannot be made: {error.code.name} ({error.message})") from error
    for name, refused in made.items():
        if refused is not None:
            raise StartError(f"topic {name} cannot be made: {refused.code.name} ({refused.message})")
    for topic in topics:
        for _ in range(_LOOKS_MAX):
            if services.topics.topic(topic.name) is not None:
                break
            await pause(broker.timers, broker.clock, _LOOK_MS)
        else:
            raise StartError(f"topic {topic.name} was made, and is not known here after {_LOOKS_MAX * _LOOK_MS // 1000} s")
