"""The resolution of the regular expressions that the members of a consumer group subscribe to.

Rules that hold here:

* A heartbeat or a join never waits for a resolution. It plans one, which runs afterwards, a slice in each turn of the loop. Its records
  bump the group's epoch, and members learn of the topics at their next heartbeats. Topics that a member subscribes to by name do not wait.
* A resolution is for all expressions of the group, so that the group rebalances once. There is one at a time, and the next begins more than
  `REFRESH_MIN_INTERVAL_MS` after the last one.
* One is due when an expression is new or not resolved, when a topic was created, and after `group.consumer.regex.refresh.interval.ms`.
* An expression stands only for topics that the member may describe whose request planned the resolution.

Source: KAFKA GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult, TopicRegexResolver (4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum
from itertools import islice

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.topics_view import MayDescribe, TopicsView, every_topic, matcher_of

REFRESH_MIN_INTERVAL_MS = 10_000
"""Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS: topics that are created one after the other cause one rebalance."""

NAMES_PER_SLICE = 500
"""Matched in one turn of the loop: about 1 ms for each expression, with the authorizer's answers."""

logger = logging.getLogger(__name__)


class RegexChange(Enum):
    """What a request did to its member's regular expression. Only a change to what is resolved (or to none) bumps the epoch at once."""

    NONE = "none"
    UNRESOLVED = "unresolved"
    RESOLVED = "resolved"


def is_due(group: ConsumerGroup, topics: TopicsView, now_ms: int, refresh_interval_ms: int, *, is_new: bool) -> bool:
    """Return whether the group's expressions are to be resolved now, by the wall clock. `is_new`: a member has just brought one."""
    if not group.regexes:
        return False
    if not group.resolved:
        return True
    if now_ms <= group.resolved_ms + REFRESH_MIN_INTERVAL_MS:
        return False
    return (
        is_new
        or len(group.regexes) != len(group.resolved)
        or group.resolved_created != topics.created
        or now_ms > group.resolved_ms + refresh_interval_ms
    )


class Resolution:
    """One resolution of a group's regular expressions: planned, run by `steps`, and then with what was `found`."""

    def __init__(self, group_id: str, regexes: tuple[str, ...], may_describe: MayDescribe = every_topic) -> None:
        self.group_id = group_id
        self.regexes = regexes
        self.may_describe = may_describe
        self.found: dict[str, frozenset[str]] = {}
        """Topics by expression; empty until the last step."""
        self.created = 0
        """`TopicsView.created` at the begin."""
        self.began_ms = 0
        self._started = False

    def start(self) -> bool:
        """Return whether nobody has started this resolution before."""
        started, self._started = self._started, True
        return not started

    def steps(self, topics: TopicsView, now_ms: int) -> Iterator[None]:
        """Match the names of all topics, a slice before each yield."""
        self.began_ms, self.created = now_ms, topics.created
        matchers = {}
        found: dict[str, set[str]] = {regex: set() for regex in self.regexes}
        for regex in self.regexes:
            try:
                matchers[regex] = matcher_of(regex)
            except Rejected as refused:  # another program wrote it to the log
                logger.error("An expression of group %s stands for no topic: %s", self.group_id, refused.message)
        names = iter(topics.names())
        while chunk := list(islice(names, max(1, NAMES_PER_SLICE // len(self.regexes)))):
            for regex, matches in matchers.items():
                found[regex].update(name for name in chunk if matches(name) and self.may_describe(name))
            yield
        self.found = {regex: frozenset(names) for regex, names in found.items()}
