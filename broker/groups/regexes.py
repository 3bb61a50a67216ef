"""Resolves the regular expressions in the subscriptions of a consumer group's members.

Invariants:

* A heartbeat or join never waits for a resolution. It plans a resolution, which runs afterwards, one slice of topic names per turn of the
  event loop. If the matching topics have changed, the group's epoch is bumped, and members get the topics at their next heartbeats. Topics
  subscribed by name are assigned without waiting for a resolution.
* A resolution matches all expressions of the group, so that the group rebalances once. A group has one resolution at a time, and the next
  one starts more than `REFRESH_MIN_INTERVAL_MS` after the last one.
* A resolution is due when an expression is new or unresolved, when a topic was created, and after
  `group.consumer.regex.refresh.interval.ms`.
* An expression matches only topics that the member whose request planned the resolution may describe.

Source: Kafka's GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult, TopicRegexResolver (4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.topics_view import MayDescribe, TopicsView, every_topic, matcher_of

REFRESH_MIN_INTERVAL_MS = 10_000
"""The minimum time between two resolutions of a group's regular expressions (Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS). Because of it,
several topics that are created in succession cause one rebalance.
"""

NAMES_PER_SLICE = 500
"""The number of topic names that are matched with one expression in one turn of the event loop. This takes about 1 ms, including
authorization.
"""

logger = logging.getLogger(__name__)


class RegexChange(Enum):
    """How a request changes its member's regular expression (Kafka's UpdateRegularExpressionsResult). Only REGEX_UPDATED_AND_RESOLVED bumps
    the group epoch at once: the new expression is already resolved, or the expression was removed."""

    NO_CHANGE = "no change"
    REGEX_UPDATED = "updated"
    REGEX_UPDATED_AND_RESOLVED = "updated and resolved"


def is_due(group: ConsumerGroup, topics: TopicsView, now_ms: int, refresh_interval_ms: int, *, is_new: bool) -> bool:
    """Return whether the group's expressions must be resolved at `now_ms` (wall clock). `is_new` is true if the request has an expression
    that no other member has."""
    if not group.regexes:
        return False
    if not group.resolved:
        return True
    if now_ms <= group.resolved_ms + REFRESH_MIN_INTERVAL_MS:
        return False
    return (
        is_new
        or len(group.regexes) != len(group.resolved)
        or group.creation_version_at_resolution != topics.creation_version
        or now_ms > group.resolved_ms + refresh_interval_ms
    )


class Resolution:
    """One resolution of a group's regular expressions. It is created when planned, and run by `steps`; then `found` has the result."""

    def __init__(self, group_id: str, regexes: tuple[str, ...], may_describe: MayDescribe = every_topic) -> None:
        self.group_id = group_id
        self.regexes = regexes
        self.may_describe = may_describe
        self.found: dict[str, frozenset[str]] = {}
        """The result: by regular expression, the names of the topics that it matches. Empty until the last step."""
        self.creation_version = 0
        """The value of `TopicsView.creation_version`, which changes with each topic creation, when the resolution began."""
        self.began_ms = 0
        self._started = False

    def start(self) -> bool:
        """Mark the resolution as started. Return False if it was started before, so that it must not run again."""
        started, self._started = self._started, True
        return not started

    def steps(self, topics: TopicsView, now_ms: int) -> Iterator[None]:
        """Match the names of all topics, one slice of names before each yield, and set `found` at the end. `now_ms` is wall clock."""
        self.began_ms, self.creation_version = now_ms, topics.creation_version
        names, found = list(topics.names()), dict[str, frozenset[str]]()
        for regex in self.regexes:
            matching = set[str]()
            try:
                matches, instructions = matcher_of(regex)
            except Rejected as refused:  # another program wrote the member's record to the log
                logger.error("An invalid expression of group %s matches no topic: %s", self.group_id, refused.message)
                found[regex] = frozenset()
                yield
                continue
            size = max(1, min(NAMES_PER_SLICE, limits.EXPRESSION_INSTRUCTIONS_AT_ONCE // instructions))
            for start in range(0, max(1, len(names)), size):
                matching.update(name for name in names[start : start + size] if matches(name) and self.may_describe(name))
                yield
            found[regex] = frozenset(matching)
        self.found = found
