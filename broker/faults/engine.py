"""All scripted faults of a broker: what is loaded, what is held, and who watches the requests.

Rules: with nothing loaded and nothing held `active` is False, and that is all that a request asks; a rule acts on what the client sees
and when, never on what is stored, but for those whose name says so (`expire-producer`, `disk-full`). Everything here runs on the broker's
loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.broker.faults.rules import AT_STEPS, EXCLUSIVE, FaultAction, FaultRule

if TYPE_CHECKING:
    from ottla.broker.faults.subject import Subject

Continue = Callable[[], object]


@dataclass(slots=True, eq=False)
class Held:
    """A request, a response or a step that waits for its release. `what` says which, for people."""

    rule: FaultRule
    what: str
    go_on: Continue
    key: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what became of it.

    `version` is the request's; `request` and `response` are messages of `ottla.protocol.messages`. `response` is None where the request was
    not handled, or has none (acks=0); `seen` tells whether it was sent whole; `late`, that it is held back, itself or behind one that is,
    and may never be sent. `faults` names the rules that were hit.
    """

    subject: Subject
    at_ms: int
    version: int
    request: Any
    response: Any
    seen: bool
    faults: tuple[str, ...] = ()
    late: bool = False
    number: int = 0
    """Counts in the order in which requests were handled; observers are told in the order in which they are answered."""


class Faults:
    """The rules of one broker, in the order in which they are asked. `on_crash` is what a `crash` does (default: SIGKILL to itself)."""

    def __init__(self, rules: Iterable[FaultRule] = (), on_crash: Continue | None = None) -> None:
        self.rules: list[FaultRule] = []
        self.held: list[Held] = []
        self.observers: list[Callable[[Exchange], object]] = []
        self.active = False
        """Whether a request has to ask anything here."""
        self.on_disk_rules: Continue | None = None
        """Told when rules came or went, by which the files learn whether writes may fail."""
        self.on_crash: Continue = on_crash or _kill_this_process
        self.spared: frozenset[str] = frozenset()
        """The client ids whose requests meet no rule but one that names a client: of whoever works beside the clients under test."""
        self.numbers = count()
        """Of all requests that are observed, over restarts of the broker."""
        self.waiting: set[asyncio.Future[None]] = set()
        """What requests wait for that are held back: a stop drops it, also where the rule is gone."""
        self._named = 0
        self._passing: set[tuple[object, ...]] = set()
        """Keys of what is being released: a step asks again as it goes on, and is not to be stopped anew."""
        for rule in rules:
            self.add(rule)

    # --- the script ----------------------------------------------------------------------------------------------------------

    def add(self, rule: FaultRule) -> FaultRule:
        """Load a rule; one without a name gets one. Raises ValueError for a name that is taken."""
        taken = {each.name for each in self.rules}
        while not rule.name:
            self._named += 1
            made_up = f"{rule.action.value}-{self._named}"
            rule.name = "" if made_up in taken else made_up
        if rule.name in taken:
            raise ValueError(f"there is a fault {rule.name!r} already")
        self.rules.append(rule)
        self._changed()
        return rule

    def remove(self, name: str) -> None:
        """Unload a rule and release what it holds. Raises KeyError."""
        rule = self.get(name)
        self.rules.remove(rule)
        self.release(name)
        self._changed()

    def reset(self) -> None:
        """Unload all rules and release everything."""
        self.rules.clear()
        self.release()
        self._changed()

    def get(self, name: str) -> FaultRule:
        """A rule by its name. Raises KeyError."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"there is no fault {name!r}; there are {', '.join(each.name for each in self.rules) or 'none'}")

    def release(self, name: str | None = None) -> int:
        """Let go what the rule `name` holds (all that is held where there is none), in the order it came; how many that were."""
        freed = [held for held in self.held if name is None or held.rule.name == name]
        self.held = [held for held in self.held if held not in freed]
        self._changed()
        self._passing = {held.key for held in freed}
        try:
            for held in freed:
                held.go_on()
        finally:
            self._passing = set()
        return len(freed)

    def drop_held(self) -> None:
        """Forget what is held, without letting it go: the broker that it was to go on in has ended."""
        self.held.clear()
        self.waiting.clear()
        self._changed()

    def drop_waiting(self) -> None:
        """Cancel what waits: the broker that it waits in stops."""
        for future in list(self.waiting):
            future.cancel()

    def observe(self, observer: Callable[[Exchange], object]) -> None:
        """Tell `observer` of every request from now on."""
        self.observers.append(observer)
        self._changed()

    def unconsumed(self) -> list[FaultRule]:
        """Rules that did not do all that they were there for."""
        return [rule for rule in self.rules if not rule.consumed]

    def assert_consumed(self) -> None:
        """Raises AssertionError with the rules that were not met as often as they say."""
        left = self.unconsumed()
        if left:
            raise AssertionError(f"faults that were not consumed: {'; '.join(map(str, left))}")

    def report(self) -> list[str]:
        """One line a rule: what it did."""
        return [str(rule) for rule in self.rules]

    # --- the broker asks ------------------------------------------------------------------------------------------------------

    def met_by(self, subject: Subject) -> list[FaultRule]:
        """The rules that hit this request; of those that exclude each other the first, so that each hit that is counted was one."""
        spared = subject.client_id in self.spared
        hit: list[FaultRule] = []
        taken: set[str] = set()
        for rule in self.rules:
            if spared and rule.client_id is None:
                continue
            wanted = EXCLUSIVE.get(rule.action, frozenset())
            if rule.hits_request(subject, may_hit=taken.isdisjoint(wanted)):
                hit.append(rule)
                taken |= wanted
        return hit

    def refuses_connection(self) -> bool:
        """Whether a new connection is closed at once."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.REFUSE_CONNECTION])  # noqa: C419 # every rule counts it

    def stops_at(self, step: str, transactional_id: str, go_on: Continue, topic: str | None = None, partition: int | None = None) -> bool:
        """Whether the transaction coordinator stops at `step`; if so `go_on` is called on release, and never after a crash."""
        key = (step, transactional_id, topic, partition)
        if key in self._passing:
            return False
        if any(held.key == key for held in self.held):
            return True
        for rule in self.rules:
            if rule.action in AT_STEPS and rule.hits_step(step, transactional_id, topic, partition):
                if rule.action is FaultAction.CRASH:
                    self.on_crash()
                else:
                    place = "" if topic is None else f" for {topic}-{partition}"
                    self.hold(rule, f"{step} of transaction {transactional_id}{place}", go_on, key)
                return True
        return False

    def fills_disk(self, topic: str, partition: int) -> bool:
        """Whether a write to this log fails."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.DISK_FULL and rule.wants(topic, partition)])  # noqa: C419 # as above

    def hold(self, rule: FaultRule, what: str, go_on: Continue, key: tuple[object, ...] = ()) -> None:
        """Keep `go_on` until `release`."""
        self.held.append(Held(rule, what, go_on, key))
        self._changed()

    def told(self, exchange: Exchange) -> None:
        """Tell the observers."""
        for observer in self.observers:
            observer(exchange)

    def _changed(self) -> None:
        self.active = bool(self.rules or self.held or self.observers)
        if self.on_disk_rules is not None:
            self.on_disk_rules()


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
