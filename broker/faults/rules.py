"""The rules of scripted faults. A rule has an action and says to which requests the action applies, such as `--fault
drop-ack:api=Produce,topic=orders,times=1`.

Invariants:
- A rule's decisions depend only on its seed and on the earlier requests, so that a run can be repeated.
- A rule counts the requests that it matched and those that it hit, so that a test can check that the fault happened.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final

from ottla.broker.faults.subject import Subject, names_in
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode


class FaultSyntax(ValueError):
    """A fault rule that cannot be parsed; the message says what is expected."""


class FaultAction(Enum):
    """The effect of a fault rule on a request, a connection, a step of the transaction coordinator or a disk write."""

    DROP_REQUEST = "drop-request"
    """Close the connection without handling the request."""
    DROP_ACK = "drop-ack"
    """Handle the request, then close the connection instead of responding. The client sees a lost acknowledgement."""
    CUT_RESPONSE = "cut-response"
    """Handle the request, send only the first `bytes` bytes of the response (default: half of it), then close the connection."""
    SWALLOW = "swallow"
    """Handle the request and never respond. The connection stays open; responses to later requests on it are never sent either, as on a
    dead link."""
    DELAY_REQUEST = "delay-request"
    """Delay the handling of the request by `ms` milliseconds; later requests of the connection wait behind it."""
    DELAY = "delay"
    """Handle the request at once, and send the response `ms` milliseconds later."""
    HOLD_REQUEST = "hold-request"
    """Handle the request only when the test releases it, even if its connection has been closed by then. Later requests of the connection
    wait behind it."""
    HOLD_RESPONSE = "hold-response"
    """Handle the request at once, but respond only when the test releases the response."""
    LATE_REQUEST = "late-request"
    """Close the connection at once, and handle the request only when the test releases it. This is how a request arrives after its sender
    has given up."""
    DUPLICATE = "duplicate"
    """Handle the request twice and return the first response, as if the network had delivered the request twice."""
    ERROR = "error"
    """Do not handle the request; respond with the error `code` for everything that the request names."""
    ERROR_AFTER = "error-after"
    """Handle the request, then respond with the error `code` for the topics and partitions that match the rule. So a successful append is
    reported as failed."""
    THROTTLE = "throttle"
    """Handle the request, and tell the client to send no requests for `ms` milliseconds (throttle_time_ms, KIP-219)."""
    SLOW = "slow"
    """Limit the speed of the connection for this request and its response to `bytes` bytes a second."""
    CORRUPT = "corrupt"
    """Handle a Fetch or ShareFetch, and change one bit of the first batch in the response, so that its CRC is wrong. Only responses with
    records are hit."""
    REDELIVER = "redeliver"
    """Handle an OffsetFetch, and lower the committed offsets in the response by `records` (default: 1). A consumer that starts there reads
    records again, as after a lost commit. Only responses with committed offsets are hit."""
    STALE_METADATA = "stale-metadata"
    """For `ms` milliseconds after a Metadata response, answer the same request with that response again, whatever has changed since."""
    EXPIRE_PRODUCER = "expire-producer"
    """Delete the producer state of the matching partitions, as after producer.id.expiration.ms, then handle the request."""
    REFUSE_CONNECTION = "refuse-connection"
    """Close new connections at once. This action applies to no request; of the rule's other fields, only `after`, `times`, `share` and
    `seed` have an effect."""
    PAUSE = "pause"
    """Hold the transaction coordinator at `step` (one of `STEPS`) until the test releases it."""
    CRASH = "crash"
    """Kill the broker, as SIGKILL does, when the transaction coordinator has reached `step` (one of `STEPS`)."""
    DISK_FULL = "disk-full"
    """Fail writes to the log of `topic` and `partition` with "no space left on device"."""


STEPS: Final = ("prepared", "marker", "marked")
"""Steps of the transaction coordinator at which a fault rule can act: `prepared` (the decision is durable, no marker is written yet),
`marker` (before the marker for `topic` and `partition` is written), `marked` (all markers are durable, the completion is not written yet).
"""

AT_STEPS: Final = frozenset({FaultAction.PAUSE, FaultAction.CRASH})
NOT_OF_REQUESTS: Final = frozenset({*AT_STEPS, FaultAction.REFUSE_CONNECTION, FaultAction.DISK_FULL})
_MS_MAX: Final = 2**31 - 1
"""The largest value in ms of the response field throttle_time_ms, which has 32 bits."""
EXCLUSIVE: Final[Mapping[FaultAction, frozenset[str]]] = {
    FaultAction.DROP_REQUEST: frozenset({"handling", "answering"}),
    FaultAction.ERROR: frozenset({"handling"}),
    FaultAction.DUPLICATE: frozenset({"handling"}),
    FaultAction.DROP_ACK: frozenset({"answering"}),
    FaultAction.CUT_RESPONSE: frozenset({"answering"}),
    FaultAction.SWALLOW: frozenset({"answering"}),
    FaultAction.LATE_REQUEST: frozenset({"answering"}),
}
"""The phases of a request (`handling`, `answering`) that each action controls. If two rules hit a request and their actions control the
same phase, only the first takes effect."""
_NEEDED: Final[Mapping[FaultAction, str]] = {
    FaultAction.DELAY: "ms",
    FaultAction.DELAY_REQUEST: "ms",
    FaultAction.THROTTLE: "ms",
    FaultAction.ERROR: "code",
    FaultAction.ERROR_AFTER: "code",
    FaultAction.PAUSE: "step",
    FaultAction.CRASH: "step",
    FaultAction.SLOW: "bytes",
    FaultAction.STALE_METADATA: "ms",
}
OF_RESPONSES: Final[Mapping[FaultAction, frozenset[ApiKey]]] = {
    FaultAction.CORRUPT: frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH}),
    FaultAction.REDELIVER: frozenset({ApiKey.OFFSET_FETCH}),
    FaultAction.STALE_METADATA: frozenset({ApiKey.METADATA}),
}
"""Actions that change responses, with the APIs whose responses each changes. A request counts as a hit only if its response contains
something that the action changes, such as records."""
_OF_SUBJECTS: Final = frozenset({"api", "client_id", "transactional_id", "group", "topic", "partition", "connection"})
"""The fields of a fault rule that select the requests to which it applies."""
_USED_BY: Final[Mapping[str, frozenset[FaultAction]]] = {
    "ms": frozenset({FaultAction.DELAY, FaultAction.DELAY_REQUEST, FaultAction.THROTTLE, FaultAction.STALE_METADATA}),
    "bytes": frozenset({FaultAction.CUT_RESPONSE, FaultAction.SLOW}),
    "records": frozenset({FaultAction.REDELIVER}),
    "code": frozenset({FaultAction.ERROR, FaultAction.ERROR_AFTER}),
    "step": AT_STEPS,
}
"""For each of these fields of a fault rule: the actions that use it. A rule whose action does not use the field is refused, because the
field would have no effect."""
_MATCHED_BY: Final[Mapping[FaultAction, frozenset[str]]] = {
    FaultAction.REFUSE_CONNECTION: frozenset(),
    FaultAction.DISK_FULL: frozenset({"topic", "partition"}),
    **dict.fromkeys(AT_STEPS, frozenset({"transactional_id", "topic", "partition"})),
}
"""For each action that applies to connections, disk writes or coordinator steps instead of requests: the fields of a rule that select them.
For all other actions, these fields are `_OF_SUBJECTS`."""
_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""APIs to which fault rules do not apply and which observers do not get, so that no password or token is stored or logged."""
ResponseKey = tuple[int, bytes]
"""The key under which the action `stale-metadata` stores a response: the request's version and its encoded body."""
_STORED_RESPONSES_MAX: Final = 100
"""The maximum number of responses that one rule with the action `stale-metadata` stores. Few are needed, because clients request few
different sets of topics."""
NEEDS_A_BROKER: Final[Mapping[FaultAction, str]] = {
    FaultAction.CRASH: "only a broker can crash at a step of its transaction coordinator",
    FaultAction.PAUSE: "only a broker can pause its transaction coordinator",
    FaultAction.DISK_FULL: "only a broker has a disk",
    FaultAction.EXPIRE_PRODUCER: "only a broker has the state of producers",
}
"""Actions that a gateway does not support, each with the reason."""


@dataclass(slots=True)
class FaultRule:
    """One fault rule: an action, and fields that say to which requests it applies. Text fields are shell patterns (`orders-*`); an omitted
    field matches everything.

    The first `after` matching requests are not hit. Of the others, a fraction `share` (0 to 1, drawn with `seed`) is hit, but at most
    `times` of them. `name` identifies the rule for `release` and on the command line.
    """

    action: FaultAction
    api: ApiKey | None = None
    client_id: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    connection: int | None = None
    after: int = 0
    times: int | None = None
    share: float = 1.0
    seed: int = 0
    ms: int | None = None
    bytes: int | None = None
    records: int | None = None
    code: ErrorCode | None = None
    step: str | None = None
    name: str = ""
    seen: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)
    stored_responses: dict[ResponseKey, tuple[int, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """For the action `stale-metadata`: the stored responses by request, each with the time in ms at which it was sent."""
    _random: random.Random = field(init=False, repr=False, compare=False)
    _counting: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """A lock for the counters, because a rule may be loaded on several brokers of a process, which run on different threads."""

    def __post_init__(self) -> None:
        needed = _NEEDED.get(self.action)
        if needed is not None and getattr(self, needed) is None:
            raise FaultSyntax(f"fault {self.action.value}: {needed}=… is required")
        if not 0 <= self.share <= 1:
            raise FaultSyntax(f"fault {self.action.value}: share must be between 0 and 1")
        if self.step is not None and self.step not in STEPS:
            raise FaultSyntax(f"fault {self.action.value}: step must be one of {', '.join(STEPS)}")
        if self.action is FaultAction.SLOW and self.bytes == 0:
            raise FaultSyntax("fault slow: bytes must be at least 1")
        if (self.ms or 0) > _MS_MAX:
            raise FaultSyntax(f"fault {self.action.value}: ms must be at most {_MS_MAX}")
        for limit in ("after", "times", "ms", "bytes", "records", "partition"):
            if (getattr(self, limit) or 0) < 0:
                raise FaultSyntax(f"fault {self.action.value}: {limit} must not be negative")
        for count in ("times", "connection"):  # 0 would count as consumed, although the fault never happened
            if getattr(self, count) == 0:
                raise FaultSyntax(f"fault {self.action.value}: {count} must be at least 1")
        self._refuse_what_has_no_effect()
        self._random = random.Random(self.seed)

    def _refuse_what_has_no_effect(self) -> None:
        """Raise FaultSyntax if the rule has a field that its action does not read, or names an API to which its action cannot apply."""
        for name, actions in _USED_BY.items():
            if getattr(self, name) is not None and self.action not in actions:
                used_by = ", ".join(each.value for each in FaultAction if each in actions)
                raise FaultSyntax(f"fault {self.action.value}: {name} has no effect; it is a field of {used_by}")
        matched = _MATCHED_BY.get(self.action, _OF_SUBJECTS)
        for name in sorted(_OF_SUBJECTS - matched):
            if getattr(self, name) is not None:
                known = f"match {', '.join(sorted(matched))}" if matched else "match no field"
                raise FaultSyntax(f"fault {self.action.value}: {name} has no effect; such rules {known}")
        if self.api is None:
            return
        apis = OF_RESPONSES.get(self.action)
        if apis is not None and self.api not in apis:
            wanted = " or ".join(each.camel_case for each in sorted(apis))
            raise FaultSyntax(f"fault {self.action.value}: it changes responses to {wanted} only, not to {self.api.camel_case}")
        if self.api in _AUTHENTICATION:
            raise FaultSyntax(f"fault {self.action.value}: no rule and no log sees {self.api.camel_case}, which is part of authentication")
        for name in sorted({"transactional_id", "group", "topic"} - names_in(self.api)):
            if getattr(self, name) is not None:
                raise FaultSyntax(f"fault {self.action.value}: {name} has no effect, because {self.api.camel_case} requests name none")

    @property
    def spent(self) -> bool:
        """Whether the rule has taken effect `times` times, and so has no further effect. Always False without `times`."""
        return self.times is not None and self.hits >= self.times

    @property
    def consumed(self) -> bool:
        """Whether the rule has taken effect as often as a test expects: `times` times, or at least once if `times` is not given."""
        return self.hits >= (1 if self.times is None else self.times)

    def hits_request(self, subject: Subject, *, may_hit: bool = True) -> bool:
        """Return whether the rule takes effect on this request. If the rule matches the request, count the match. `may_hit` is False if an
        earlier rule hit the request and its action excludes this rule's action; then the rule has no effect."""
        if self.action in OF_RESPONSES or not self.matches(subject):
            return False
        return self.draw(may_hit=may_hit)

    def may_hit_response(self, subject: Subject) -> bool:
        """Return whether the rule may change the response to this request. It does so only if the response contains something to change,
        such as records to corrupt; then the caller calls `draw`, which counts the match.

        For the actions `corrupt` and `redeliver`, topic and partition are searched in the response, not in the request: a Fetch in a
        session does not repeat its partitions, and an OffsetFetch may ask for all.
        """
        if subject.api not in OF_RESPONSES.get(self.action, ()) or not self._matches(subject):
            return False
        return self.action is not FaultAction.STALE_METADATA or self._names_wanted(subject)

    def matches(self, subject: Subject) -> bool:
        """Return whether the rule's fields match a request. This call does not count the request."""
        return self._matches(subject) and self._names_wanted(subject)

    def may_hit_api(self, api: int) -> bool:
        """Return whether the rule may take effect on requests of this API, or on their responses."""
        if self.action in NOT_OF_REQUESTS or (self.api is not None and self.api != api):
            return False
        return api in OF_RESPONSES.get(self.action, (api,))

    def store_response(self, key: ResponseKey, at_ms: int, answer: Any) -> None:
        """Store a response, sent at the time `at_ms` (ms), so that it can be sent again. Only the newest `_STORED_RESPONSES_MAX` responses
        are kept."""
        self.stored_responses.pop(key, None)
        if len(self.stored_responses) >= _STORED_RESPONSES_MAX:
            del self.stored_responses[next(iter(self.stored_responses))]
        self.stored_responses[key] = at_ms, answer

    def _matches(self, subject: Subject) -> bool:
        if self.action in NOT_OF_REQUESTS:
            return False
        if self.api is not None and self.api is not subject.api:
            return False
        if self.connection is not None and self.connection != subject.connection:
            return False
        if self.client_id is not None and not fnmatchcase(subject.client_id, self.client_id):
            return False
        return _any(self.transactional_id, subject.transactional_ids) and _any(self.group, subject.groups)

    def _names_wanted(self, subject: Subject) -> bool:
        return not self.of_partitions or any(self.wants(*each) for each in subject.partitions)

    @property
    def of_partitions(self) -> bool:
        """Whether the rule has a topic or partition field, and so applies only to some topics or partitions."""
        return self.topic is not None or self.partition is not None

    def wants_group(self, group: str | None) -> bool:
        """Return whether the rule applies to this group in a response. `group` is None if the response has no group names; then return
        True, because the rule has already matched the group in the request."""
        return group is None or _any(self.group, {group})

    def wants(self, topic: str | None, partition: int | None) -> bool:
        """Return whether the rule applies to this topic and partition of a response. If the response names no topic (None), a rule with a
        topic does not apply; if it names no partition (None), any rule applies."""
        if self.topic is not None and (topic is None or not fnmatchcase(topic, self.topic)):
            return False
        return self.partition is None or partition is None or self.partition == partition

    def hits_step(self, step: str, transactional_id: str, topic: str | None, partition: int | None) -> bool:
        """Return whether the rule takes effect at this step of the transaction coordinator, and count the step if the rule matches it."""
        return (
            self.action in AT_STEPS
            and self.step == step
            and _any(self.transactional_id, {transactional_id})
            and self.wants(topic, partition)
            and self.draw()
        )

    def draw(self, *, may_hit: bool = True) -> bool:
        """Count one request, connection, coordinator step or disk write that the rule matches. Return whether the rule takes effect on it,
        according to `after`, `share` and `times`. A rule that has taken effect `times` times counts no more. `may_hit` is False if an
        earlier rule excludes this one; then return False."""
        with self._counting:
            if self.spent:
                return False
            self.seen += 1
            if not may_hit or self.seen <= self.after or (self.share < 1 and self._random.random() >= self.share):
                return False
            self.hits += 1
            return True

    def to_json(self) -> dict[str, Any]:
        """Return the fields that were given for the rule, and its counters, as JSON values."""
        shown: dict[str, Any] = {"action": self.action.value}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.init and item.name != "action" and value != item.default:
                shown[item.name] = value.name if isinstance(value, Enum) else value
        return {**shown, "seen": self.seen, "hits": self.hits, "consumed": self.consumed}

    def __str__(self) -> str:
        shown = self.to_json()
        given = ",".join(f"{name}={value}" for name, value in shown.items() if name not in {"action", "seen", "hits", "consumed"})
        return f"{self.action.value}{':' if given else ''}{given}: {self.hits} of {self.seen} hit"


_FIELDS: Final = {item.name: item.type for item in fields(FaultRule) if item.init and item.name != "action"}
_NUMBERS: Final = frozenset({"partition", "connection", "after", "times", "seed", "ms", "bytes", "records"})


def parse_rule(text: str) -> FaultRule:
    """Parse a fault rule from text of the form `action:name=value,…`. Raises FaultSyntax if the text or a value is invalid."""
    action, _, rest = text.partition(":")
    return make_rule({"action": action, **_given(rest, f"fault {action}")})


def parse_filter(text: str) -> Callable[[Subject], bool]:
    """Parse the matching fields of a fault rule, such as `api=Fetch,topic=orders`, and return a function that tells whether a request
    matches them. Raises FaultSyntax if the text or a value is invalid."""
    return make_filter(_given(text, "a filter"))


def _given(text: str, of: str) -> dict[str, str]:
    """Parse text of the form `name=value,…` to a dict. Raises FaultSyntax for another form; its message begins with the text `of`."""
    given: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.strip().partition("=")
        if not equals or (not value and name != "client_id"):
            raise FaultSyntax(f"{of}: {part.strip()!r} is not of the form name=value")
        if name in given:
            raise FaultSyntax(f"{of}: {name} is given twice; load a rule for each value, or use a pattern such as orders-*")
        given[name] = value
    return given


def make_filter(given: Mapping[str, Any]) -> Callable[[Subject], bool]:
    """Return a function that tells whether a request matches the fields in `given`, which are matching fields of a fault rule by name.
    Values are JSON values or text. Raises FaultSyntax for an unknown field or an invalid value."""
    if unknown := set(given) - _OF_SUBJECTS:
        raise FaultSyntax(f"a filter has no {', '.join(sorted(unknown))}; known are {', '.join(sorted(_OF_SUBJECTS))}")
    action = FaultAction.DROP_ACK.value  # a rule of requests; its effect does not matter here
    try:
        return make_rule({"action": action, **given}).matches
    except FaultSyntax as error:
        raise FaultSyntax(str(error).replace(f"fault {action}", "a filter", 1)) from None


def make_rule(given: Mapping[str, Any]) -> FaultRule:
    """Make a fault rule from its fields by name. Values are JSON values or text. Raises FaultSyntax for an unknown field, an invalid value,
    or a field that the rule's action does not use."""
    values = {name.replace("-", "_"): value for name, value in given.items()}
    action = str(values.pop("action", ""))
    try:
        kind = FaultAction(action)
    except ValueError:
        raise FaultSyntax(f"unknown fault {action!r}; use one of {', '.join(each.value for each in FaultAction)}") from None
    unknown = set(values) - set(_FIELDS)
    if unknown:
        raise FaultSyntax(f"fault {action}: unknown {', '.join(sorted(unknown))}; known are {', '.join(_FIELDS)}")
    try:
        return FaultRule(kind, **{name: _read(action, name, value) for name, value in values.items() if value is not None})
    except (ValueError, TypeError) as error:
        if isinstance(error, FaultSyntax):
            raise
        raise FaultSyntax(f"fault {action}: {error}") from error


def _read(action: str, name: str, value: Any) -> Any:
    if name == "api":
        return _member(ApiKey, action, "API", value)
    if name == "code":
        return _member(ErrorCode, action, "error code", value)
    if name not in _NUMBERS and name != "share":
        return str(value)
    try:
        return float(value) if name == "share" else int(value)
    except ValueError:
        raise FaultSyntax(f"fault {action}: {name} must be a {'' if name == 'share' else 'whole '}number, not {value!r}") from None


def _member(kind: type[Enum], action: str, what: str, value: Any) -> Any:
    text = str(value)
    wanted = text.replace("_", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == wanted or str(int(member.value)) == text:
            return member
    raise FaultSyntax(f"fault {action}: there is no {what} {text!r}")


def _any(pattern: str | None, values: set[str]) -> bool:
    return pattern is None or any(fnmatchcase(value, pattern) for value in values)
