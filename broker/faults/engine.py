"""The scripted faults of a broker: loaded rules, held requests, and observers of requests.

Rules:
- With no rules, nothing held and no observers, `active` is False; that check is all that a request costs.
- A rule changes what a client sees and when, never what is stored. The exceptions are the actions `expire-producer` and `disk-full`.
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
    """A held request, response or coordinator step. `what` describes it for people; calling `resume` continues it."""

    rule: FaultRule
    what: str
    resume: Continue
    key: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its result.

    `version` is the request's; `request` and `response` are messages of `ottla.protocol.messages`. `response` is None if the request was
    not handled or has no response (acks=0). `seen`: the whole response was sent to the client. `late`: the response is held back by a rule,
    or waits behind an earlier response that is held back, and may never be sent. `faults` names the rules that hit the request.
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
    """Counts requests in the order in which they were handled; observers get them in the order of their responses."""
    size: int = 0
    """The size of the request's frame in bytes."""
    took_ns: int = 0
    """The real time in nanoseconds from the request to its result, without the delays by rules."""
    response_bytes: int | None = None
    """The size of the response with its size prefix, as a gateway received it; None if the response has no bytes yet."""


class Faults:
    """The fault rules of one broker or gateway, in the order in which they are evaluated. A `crash` rule calls `on_crash`, which by default
    kills the process. `refused`: the actions that this broker or gateway does not support, with the reason."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), on_crash: Continue | None = None, refused: Mapping[FaultAction, str] | None = None
    ) -> None:
        self._refused = refused or {}
        self.rules: list[FaultRule] = []
        self.held: list[Held] = []
        self.observers: list[Callable[[Exchange], object]] = []
        self.active = False
        """Whether there are rules, held requests or observers. If not, requests do not consult this object, so that they cost nothing."""
        self.on_disk_rules: Continue | None = None
        """Called when rules were added or removed. The broker's files then find out whether there is a `disk-full` rule; only then do they
        consult the rules at each write."""
        self.on_crash: Continue = on_crash or _kill_this_process
        self.exempt_client_ids: frozenset[str] = frozenset()
        """Client ids of tools that run beside the clients under test: only rules with a `client_id` apply to their requests."""
        self.numbers = count()
        """Numbers for observed requests, from 0. A restarted broker continues the sequence."""
        self.waiting: set[asyncio.Future[None]] = set()
        """Futures of held requests; a stop cancels them, even if the rule has been removed."""
        self._named = 0
        self._passing: set[tuple[object, ...]] = set()
        """Keys of the coordinator steps that are being released. A released step consults the rules again; while its key is here, no rule
        holds it again."""
        for rule in rules:
            self.add(rule)

    # --- the script ----------------------------------------------------------------------------------------------------------

    def add(self, rule: FaultRule) -> FaultRule:
        """Load a rule; generate a name if it has none. Raises FaultSyntax for a refused action, ValueError for a name in use."""
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
        """Unload a rule by its name, and release the requests, responses and coordinator steps that it holds. Raises KeyError."""
        rule = self.get(name)
        self.rules.remove(rule)
        self.release(name)
        self._changed()

    def reset(self) -> None:
        """Unload all rules, and release all requests, responses and coordinator steps that they hold."""
        self.rules.clear()
        self.release()
        self._changed()

    def get(self, name: str) -> FaultRule:
        """Return the loaded rule with this name. Raises KeyError."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"there is no fault {name!r}; loaded: {', '.join(each.name for each in self.rules) or 'none'}")

    def release(self, name: str | None = None) -> int:
        """Release the requests, responses and coordinator steps that the rule `name` holds (without a name, that any rule holds), in order
        of arrival; return their number."""
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
        """Discard all held requests, responses and coordinator steps without releasing them, because their broker has ended."""
        self.held.clear()
        self.waiting.clear()
        self._changed()

    def drop_waiting(self) -> None:
        """Cancel the futures that held requests wait for, because the broker stops."""
        for future in list(self.waiting):
            future.cancel()

    def observe(self, observer: Callable[[Exchange], object]) -> None:
        """Call `observer` with every request and its result from now on."""
        self.observers.append(observer)
        self._changed()

    def stop_observing(self, observer: Callable[[Exchange], object]) -> None:
        """Stop calling `observer`. Raises ValueError if it was not registered by `observe`."""
        self.observers.remove(observer)
        self._changed()

    def unconsumed(self) -> list[FaultRule]:
        """Return the rules that took effect less often than their `times` says, or never if they have no `times`."""
        return [rule for rule in self.rules if not rule.consumed]

    def assert_consumed(self) -> None:
        """Raise AssertionError, which names the rules, if a rule took effect less often than its `times` says, or never if it has no
        `times`."""
        left = self.unconsumed()
        if left:
            raise AssertionError(f"faults that were not consumed: {'; '.join(map(str, left))}")

    def report(self) -> list[str]:
        """Return one line for each loaded rule, with the counts of matching requests and of hits."""
        return [str(rule) for rule in self.rules]

    # --- the broker asks ------------------------------------------------------------------------------------------------------

    def concern_api(self, api: int) -> bool:
        """Return whether a rule can take effect on requests of this API, or an observer sees them. Nothing is counted."""
        return bool(self.observers) or any(rule.may_hit_api(api) for rule in self.rules)

    def concern(self, subject: Subject) -> bool:
        """Return whether a rule can take effect on this request or its response, or an observer sees them. Nothing is counted."""
        return bool(self.observers) or any(rule.matches(subject) or rule.may_hit_response(subject) for rule in self.rules)

    def rules_hitting(self, subject: Subject) -> list[FaultRule]:
        """Return the rules that hit this request, and count the request for each rule that matches it. Of rules that exclude each other,
        only the first is returned, so that a rule's hits are the faults that really happened.
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
        """Return the rules that may change the response to this request, provided that it contains what they change."""
        exempt = subject.client_id in self.exempt_client_ids
        return [rule for rule in self.rules if rule.may_hit_response(subject) and not (exempt and rule.client_id is None)]

    def refuses_connection(self) -> bool:
        """Return whether a `refuse-connection` rule closes the new connection at once; count the connection for every such rule."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.REFUSE_CONNECTION])  # noqa: C419 # every rule counts it

    def stops_at(self, step: str, transactional_id: str, resume: Continue, topic: str | None = None, partition: int | None = None) -> bool:
        """Return whether a rule stops the transaction coordinator at `step` (holds the step, or crashes the broker); `resume` is called on
        release, and never after a crash."""
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
        """Return whether a `disk-full` rule makes this write to the partition's log fail."""
        return any([rule.draw() for rule in self.rules if rule.action is FaultAction.DISK_FULL and rule.wants(topic, partition)])  # noqa: C419 # as above

    def hold(self, rule: FaultRule, what: str, resume: Continue, key: tuple[object, ...] = ()) -> None:
        """Hold a request, a response or a coordinator step, described by `what`, until `release` calls `resume`. `key` identifies a
        coordinator step."""
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
