"""Lets a test control a broker in its process: its faults, clock and topics. The effect of each call is complete when the call returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from ottla.broker.controller.create_topics import NewTopic, create_cluster_topics
from ottla.broker.core.clock import Clock, MovableClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import FaultRule, make_rule, parse_rule
from ottla.broker.testing.broker_thread import BrokerThread, NodeThread


def as_text(value: str | float) -> str:
    """Format a setting's value as in a .properties file: booleans are `true` and `false`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class FaultControl:
    """Loads and removes the fault rules (docs/faults.md) of one broker or gateway, and releases the requests that they hold."""

    def __init__(self, owner: NodeThread[Any], faults: Faults) -> None:
        self._owner = owner
        self._faults = faults

    def add(self, rule: str | FaultRule, **fields: Any) -> FaultRule:
        """Load a fault rule, and return it: `add("drop-ack:api=Produce,times=1")` or `add("drop-ack", api="Produce", times=1)`. Raises
        FaultSyntax for an invalid or unsupported rule, ValueError if a loaded rule has the same name.

        If the same rule object is loaded on several brokers in this process, they share its counters: `times=1` then means once on all
        brokers together.
        """
        if not isinstance(rule, FaultRule):
            rule = make_rule({"action": rule, **fields}) if fields else parse_rule(rule)
        made = rule
        if not self._owner.running:
            return self._faults.add(made)
        return self._owner.call(lambda _: self._faults.add(made))

    def remove(self, name: str) -> None:
        """Remove the fault rule with this name, and release the requests, responses and coordinator steps that it holds. Raises KeyError if
        no such rule is loaded."""
        self._owner.call(lambda _: self._faults.remove(name))

    def reset(self) -> None:
        """Remove all fault rules, and release all requests, responses and coordinator steps that they hold."""
        if self._owner.running:
            self._owner.call(lambda _: self._faults.reset())
        else:
            self._faults.reset()

    def release(self, name: str | None = None) -> int:
        """Release the requests, responses and coordinator steps that the fault rule `name` holds; without a name, those that any rule
        holds. Return how many were released. Raises KeyError if no rule with this name is loaded."""
        if name is not None:
            self._faults.get(name)
        return self._owner.call(lambda _: self._faults.release(name))

    def wait_until_held(self, count: int = 1) -> list[str]:
        """Wait until fault rules hold at least `count` requests, responses or coordinator steps in total; return a description of each.
        Raises TimeoutError after 20 seconds."""
        self._wait(lambda: len(self._faults.held) >= count, f"{count} held")
        return [held.what for held in self._faults.held]

    def wait_until_hit(self, name: str, times: int = 1) -> None:
        """Wait until the fault rule `name` has taken effect at least `times` times since it was loaded. Raises KeyError if no such rule is
        loaded, TimeoutError after 20 seconds."""
        rule = self._faults.get(name)
        self._wait(lambda: rule.hits >= times, f"{name} hit {times} times")

    def _wait(self, met: Callable[[], bool], wanted: str) -> None:
        try:
            self._owner.call_until(lambda _: met())
        except TimeoutError as error:
            raise TimeoutError(f"timed out waiting for {wanted}; the rules: {'; '.join(self._faults.report()) or 'none'}") from error

    @property
    def rules(self) -> list[FaultRule]:
        """All loaded fault rules, with their counters."""
        return list(self._faults.rules)

    def assert_consumed(self) -> None:
        """Raise AssertionError if a fault rule has not taken effect as often as its `times` says, or if a rule without `times` has never
        taken effect. The message names the rules."""
        self._faults.assert_consumed()


class ClockControl:
    """Reads and advances the clock of a broker or a gateway."""

    def __init__(self, owner: NodeThread[Any], clock: Clock) -> None:
        self._owner = owner
        self._clock = clock

    def now_ms(self) -> int:
        """Return the time by the node's clock, in milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms()

    def advance(self, by: timedelta | float) -> None:
        """Advance the clock by a timedelta or by a number of seconds, and run everything that becomes due: sessions end, transactions time
        out, producer ids, offsets and old segments expire. Raises TypeError if the broker was given a clock that cannot be advanced,
        RuntimeError if it does not run."""
        clock = self._clock
        if not isinstance(clock, MovableClock):
            raise TypeError(f"a {type(clock).__name__} cannot be advanced")
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        self._owner.call(lambda _: clock.advance(round(seconds * 1000)))
        self._owner.call_until(lambda broker: (broker.timers.next_deadline() or 2**62) > clock.mono_ms())


class TopicControl:
    """Creates topics of one standalone broker and returns their names and end offsets, without a Kafka client."""

    def __init__(self, owner: BrokerThread) -> None:
        self._owner = owner

    def create(self, name: str, partitions: int = 1, configs: Mapping[str, str | float] | None = None) -> str:
        """Create a topic with the settings `configs` (Kafka's topic settings, by name); return its name. Raises Rejected, for instance if
        the topic exists, and RuntimeError for a broker of a cluster."""
        given = tuple((key, as_text(value)) for key, value in (configs or {}).items())

        async def make() -> Rejected | None:
            standalone = self._owner.node.standalone
            if standalone is None:
                raise RuntimeError("topics of a cluster are created by its controller: use the cluster's `topics`")
            wanted = NewTopic(name, partitions, configs=given)
            (made,) = await standalone.controller.active.run(partial(create_cluster_topics, topics=[wanted]))
            return made.error

        error = self._owner.call_async(make())
        if error is not None:
            raise error
        return name

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the partition's log end offset; control records count, too. Raises Rejected if there is no such partition."""
        return self._owner.call(lambda broker: broker.services.partitions.get(topic, partition).log.log_end_offset)

    def names(self) -> list[str]:
        """Return the names of the broker's topics, without internal topics."""
        return self._owner.call(lambda broker: [name for name in broker.services.partitions.topic_names() if not name.startswith("__")])
