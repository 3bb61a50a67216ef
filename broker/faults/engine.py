"""The scripted faults of a broker or gateway: the loaded rules, the requests that they hold, and the observers of requests.

Rules:
- With no rules, nothing held and no observers, `active` is False; then a request only costs this check.
- A rule changes which requests are handled and which responses are sent, and when. Only `expire-producer` and `disk-full` interfere with
  stored state.
- Everything here runs on the broker's event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.broker.faults.rules import AT_STEPS, EXCLUSIVE, FaultAction, FaultRule, FaultSyntax

if TYPE_CHECKING:
    from ottla.broker.faults.subject import Subject

Continue = Callable[[], object]


@dataclass(slots=True, eq=False)
class Held:
    """A request, response or transaction coordinator's step that a fault rule holds. `what` describes it for people; calling `resume`
    continues it."""

    rule: FaultRule
    what: str
    resume: Continue
    key: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its result, as observers get them.

    `version` is the request's version; `request` and `response` are messages of `ottla.protocol.messages`. `response` is None if the
    request was not handled or has no response (acks=0). `seen`: the whole response was sent to the client. `late`: the response is held
    back by a rule, or waits behind an earlier response that is held back, and may never be sent. `faults` names the fault rules that hit
    the request.
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
    """The request's number in the order in which requests were handled. Observers are called in another order, that of the responses."""
    size: int = 0
    """The size of the request's frame in bytes."""
    took_ns: int = 0
    """The real time in nanoseconds from the request's arrival to its result, without delays that fault rules caused."""
    response_bytes: int | None = None
    """The size in bytes of the response that a gateway received, including the size prefix. None if the size is unknown, for instance on a
    broker before the response is encoded."""


class Faults:
    """The fault rules of one broker or gateway, in the order in which they are evaluated. A rule with the action `crash` calls `on_crash`,
    which by default kills the process. `refused` maps each action that this broker or gateway does not support to the reason."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), on_crash: Continue | None = None, refused: Mapping[FaultAction, str] | None = None
    ) -> None:
        self._refused = refused or {}
        self.rules: list[FaultRule] = []
        self.held: list[Held] = []
        self.observers: list[Callable[[Exchange], object]] = []
        self.active = False
        """Whether there are rules, held requests or observers. If False, requests do not consult this object, so that faults cost nothing
        when they are not used."""
        self.on_disk_rules: Continue | None = None
        """Called whenever a rule is added or removed. The broker's files then check whether there is a `disk-full` rule; only if there is
        one, each write consults the rules."""
        self.on_crash: Continue = on_crash or _kill_this_process
        self.exempt_client_ids: frozenset[str] = frozenset()
        """Client ids of tools that run beside the clients under test. Their requests are hit only by rules that have a `client_id`."""
        self.numbers = count()
        """Generates the numbers (from 0) of observed requests. A restarted broker continues the sequence."""
        self.waiting: set[asyncio.Future[None]] = set()
        """The futures that held requests wait for. When the broker stops, they are cancelled, even if the rule has been removed before."""
        self._named = 0
        self._passing: set[tuple[object, ...]] = set()
        """Keys of the transaction coordinator's steps that `release` is continuing now. A continued step consults the rules again; no rule
        holds it again while its key is in this set."""
        for rule in rules:
            self.add(rule)

    # --- the script ----------------------------------------------------------------------------------------------------------

    def add(self, rule: FaultRule) -> FaultRule:
        """Load a fault rule and return it; a rule without a name gets a generated one. Raises FaultSyntax if this broker or gateway does
        not support the rule's action, ValueError if the name is in use."""
        if rule.action in self._refused:
            raise FaultSyntax(f"fault {rule.action.value}: {self._refused[rule.action]}")
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
        """Remove the fault rule with this name, and release the requests, responses and coordinator steps that it holds. Raises KeyError if
        no such rule is loaded."""
        rule = self.get(name)
        self.rules.remove(rule)
        self.release(name)
        self._changed()

    def reset(self) -> None:
        """Remove all fault rules, and release all requests, responses and coordinator steps that they hold."""
        self.rules.clear()
        self.release()
        self._changed()

    def get(self, name: str) -> FaultRule:
        """Return the loaded fault rule with this name. Raises KeyError if there is none; the text lists the loaded rules."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"there is no fault {name!r}; loaded: {', '.join(each.name for each in self.rules) or 'none'}")

    def release(self, name: str | None = None) -> int:
        """Release the requests, responses and coordinator steps that the fault rule `name` holds, in order of arrival; without a name,
        those that any rule holds. Return how many were released, 0 if there is no such rule."""
        freed = [held for held in self.held if name is None or held.rule.name == name]
        self.held = [held for held in self.held if held not in freed]
        self._changed()
        self._passing = {held.key for held in freed}
        try:
            for held in freed:
                held.resume()
        finally:
            self._passing = set()
        return len(freed)

    def drop_held(self) -> None:
        """Discard all held requests, responses and coordinator steps without releasing them, because the broker that received them has
        ended."""
        self.held.clear()
        self.waiting.clear()
        self._changed()

    def drop_waiting(self) -> None:
        """Cancel the futures that held requests wait for, because the broker stops."""
        for future in list(self.waiting):
            future.cancel()

    def observe(self, observer: Callable[[Exchange], object]) -> None:
        """From now on, call `observer` with every request and its result."""
        self.observers.append(observer)
        self._changed()

    def stop_observing(self, observer: Callable[[Exchange], object]) -> None:
        """Stop calling `observer`. Raises ValueError if it was not registered by `observe`."""
        self.observers.remove(observer)
        self._changed()

    def unconsumed(self) -> list[FaultRule]:
        """Return the fault rules that have not taken effect as often as their `times` says, and rules without `times` that have never taken
        effect."""
        return [rule for rule in self.rules if not rule.consumed]

    def assert_consumed(self) -> None:
        """Raise AssertionError if a fault rule has not taken effect as often as its `times` says, or if a rule without `times` has never
        taken effect. The message names the rules."""
        left = self.unconsumed()
        if left:
            raise AssertionError(f"faults that were not consumed: {'; '.join(map(str, left))}")

    def report(self) -> list[str]:
        """Return one line of text for each loaded fault rule, with the number of requests that it matched and the number that it hit."""
        return [str(rule) for rule in self.rules]

    # --- the broker asks ------------------------------------------------------------------------------------------------------

    def concern_api(self, api: int) -> bool:
        """Return whether a fault rule may take effect on requests of this API, or whether there is an observer. This call counts nothing as
        a match."""
        return bool(self.observers) or any(rule.may_hit_api(api) for rule in self.rules)

    def concern(self, subject: Subject) -> bool:
        """Return whether a fault rule may take effect on this request or its response, or whether there is an observer. This call counts
        nothing as a match."""
        return bool(self.observers) or any(rule.matches(subject) or rule.may_hit_response(subject) for rule in self.rules)

    def rules_hitting(self, subject: Subject) -> list[FaultRule]:
        """Return the fault rules that hit this request. For each rule that matches the request, count the match.

        Some actions exclude each other, such as two different responses. Of their rules only the first is returned, so that the hits that a
        rule counts are faults that really happened.
        """
        exempt = subject.client_id in self.exempt_client_ids
        hit: list[FaultRule] = []
        taken: set[str] = set()
        for rule in self.rules:
            if exempt and rule.client_id is None:
                continue
            wanted = EXCLUSIVE.get(rule.action, frozenset())
            if rule.hits_request(subject, may_hit=taken.isdisjoint(wanted)):
                hit.append(rule)
                taken |= wanted
        return hit

    def candidates(self, subject: Subject) -> list[FaultRule]:
        """Return the fault rules that may change the response to this request. Such a rule has an effect only if the response contains
        something that it can change, such as records."""
        exempt = subject.client_id in self.exempt_client_ids
        return [rule for rule in self.rules if rule.may_hit_response(subject) and not (exempt and rule.client_id is None)]

    def refuses_connection(self) -> bool:
        """Return whether a `refuse-connection` rule closes the new connection at once. Each such rule counts the connection."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.REFUSE_CONNECTION])  # noqa: C419 # every rule counts it

    def stops_at(self, step: str, transactional_id: str, resume: Continue, topic: str | None = None, partition: int | None = None) -> bool:
        """Return whether a fault rule stops the transaction coordinator at `step`: either it holds the step, and `resume` is called on
        release, or it crashes the broker. At the step `marker`, `topic` and `partition` name the partition of the transaction marker."""
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
                    self.hold(rule, f"{step} of transaction {transactional_id}{place}", resume, key)
                return True
        return False

    def fills_disk(self, topic: str, partition: int) -> bool:
        """Return whether a `disk-full` rule makes this write to the partition's log fail; each such rule counts the write."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.DISK_FULL and rule.wants(topic, partition)])  # noqa: C419 # as above

    def hold(self, rule: FaultRule, what: str, resume: Continue, key: tuple[object, ...] = ()) -> None:
        """Hold a request, a response or a step of the transaction coordinator until `release` calls `resume`. `what` describes it for
        people; `key` identifies a coordinator step. If the rule was removed since it matched the request, call `resume` at once."""
        if not any(each is rule for each in self.rules):
            resume()
            return
        self.held.append(Held(rule, what, resume, key))
        self._changed()

    def notify_observers(self, exchange: Exchange) -> None:
        """Pass a request and its result to all observers."""
        for observer in self.observers:
            observer(exchange)

    def _changed(self) -> None:
        self.active = bool(self.rules or self.held or self.observers)
        if self.on_disk_rules is not None:
            self.on_disk_rules()


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
