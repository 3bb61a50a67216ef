"""Creates the internal topics of streams groups, and stores the reason of a failure for a limited time.

Source: Kafka's DefaultAutoTopicCreationManager.createStreamsInternalTopics, ExpiringErrorCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.metadata.topic_making import AutoCreation, Requester, TopicMaker
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.streams.internal_topics import InternalTopic

CONTROLLERS_CHOICE = -1


class _Failure(NamedTuple):
    """The reason why an internal topic of a streams group could not be created, and the monotonic time (ms) at which the failure is
    forgotten."""

    until_ms: int
    reason: str


class StreamsTopics:
    """Creates the internal topics of streams groups in the background, and stores for a limited time why a topic could not be created."""

    def __init__(self, maker: TopicMaker, nursery: Nursery) -> None:
        self._maker = maker
        self._clock = nursery.clock
        self._creation = AutoCreation(nursery)
        self._failures: dict[str, _Failure] = {}

    def begin_create(self, topics: Mapping[str, InternalTopic], requester: Requester, failure_kept_ms: int) -> None:
        """Start to create topics on behalf of the client `requester`, whose quota the new partitions count against. Topics that are being
        created or have failed recently are left out. `failures` returns the reason of a failure for `failure_kept_ms`."""
        failures = self.failures(topics)
        wanted = [name for name in topics if name not in failures]
        self._creation.begin(wanted, partial(self._create, topics, requester, failure_kept_ms))

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Return by name why the creation of a topic has failed, for those of `names` whose failure is still stored."""
        now = self._clock.mono_ms()
        failed = {name: self._failures[name] for name in names if name in self._failures}
        return {name: failure.reason for name, failure in failed.items() if failure.until_ms > now}

    async def _create(
        self, topics: Mapping[str, InternalTopic], requester: Requester, failure_kept_ms: int, names: Sequence[str]
    ) -> dict[str, Rejected | None]:
        try:
            answers = await self._maker.create([_new(topics[name]) for name in names], requester)
        except Rejected as error:
            self._keep(dict.fromkeys(names, error), failure_kept_ms)
            raise
        self._keep(answers, failure_kept_ms)
        return answers

    def _keep(self, answers: Mapping[str, Rejected | None], failure_kept_ms: int) -> None:
        now = self._clock.mono_ms()
        self._failures = {name: failure for name, failure in self._failures.items() if failure.until_ms > now}
        for name, error in answers.items():
            if error is not None:
                self._failures[name] = _Failure(now + failure_kept_ms, error.message or error.code.name)
        for name in sorted(self._failures, key=self._failures.__getitem__)[: -limits.STREAMS_TOPIC_FAILURES]:
            del self._failures[name]


def _new(topic: InternalTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or CONTROLLERS_CHOICE, configs=tuple(topic.configs.items()))
