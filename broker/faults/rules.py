"""Rules of scripted faults: which request meets which mishap, how often. `--fault drop-ack:api=Produce,topic=orders,times=1`.

Rules that hold here: what a rule does depends only on its seed and on the requests that came before, so a run can be repeated; a rule
counts what it saw and what it hit, so a test can ask whether it was consumed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.faults.subject import Subject


class FaultSyntax(ValueError):
    """A rule that cannot be read; the text says what is expected."""


class FaultAction(Enum):
    """What happens to a request, a connection, a step of the transaction coordinator or a write."""

    DROP_REQUEST = "drop-request"
    """Close the connection; the request is not handled."""
    DROP_ACK = "drop-ack"
    """Handle the request, then close the connection instead of answering: the lost acknowledgement of every exactly-once tutorial."""
    CUT_RESPONSE = "cut-response"
    """Handle it, send the first `bytes` of the response (default: half of them), then close the connection."""
    SWALLOW = "swallow"
    """Handle it and never answer; the connection stays open, and what comes behind it waits for ever, as on a dead link."""
    DELAY_REQUEST = "delay-request"
    """Handle it `ms` later; later requests of the connection stay behind it."""
    DELAY = "delay"
    """Handle it, answer `ms` later."""
    HOLD_REQUEST = "hold-request"
    """Handle it when it is released, even if its connection is gone by then; later requests of the connection stay behind it."""
    HOLD_RESPONSE = "hold-response"
    """Handle it, answer when it is released."""
    LATE_REQUEST = "late-request"
    """Close the connection at once; the request is handled when it is released, as one still on its way when its sender gave up."""
    DUPLICATE = "duplicate"
    """Handle it twice, answer what came of the first time: a request that the network delivered twice."""
    ERROR = "error"
    """Do not handle it; answer `code` for everything it names."""
    ERROR_AFTER = "error-after"
    """Handle it, then answer `code` for what matches: an append that is kept and reported as failed."""
    THROTTLE = "throttle"
    """Handle it, tell the client to wait `ms` (throttle_time_ms, KIP-219)."""
    EXPIRE_PRODUCER = "expire-producer"
    """Forget the producers of the matching partitions, as after producer.id.expiration.ms, then handle it."""
    REFUSE_CONNECTION = "refuse-connection"
    """Close new connections at once. Matches no request; only `after`, `times`, `share` and `seed` count."""
    PAUSE = "pause"
    """Stop the transaction coordinator at `step` (see `STEPS`) until released."""
    CRASH = "crash"
    """End the broker as SIGKILL does, at `step` of the transaction coordinator."""
    DISK_FULL = "disk-full"
    """Writes to the log of `topic` and `partition` fail with "no space left on device"."""


STEPS: Final = ("prepared", "marker", "marked")
"""Steps of the coordinator: `prepared` (the decision is durable, no marker is written), `marker` (before the marker of `topic` and
`partition`), `marked` (all markers are durable, the end is not written)."""

AT_STEPS: Final = frozenset({FaultAction.PAUSE, FaultAction.CRASH})
NOT_OF_REQUESTS: Final = frozenset({*AT_STEPS, FaultAction.REFUSE_CONNECTION, FaultAction.DISK_FULL})
_MS_MAX: Final = 2**31 - 1
"""throttle_time_ms has 32 bits."""
EXCLUSIVE: Final[Mapping[FaultAction, frozenset[str]]] = {
    FaultAction.DROP_REQUEST: frozenset({"handling", "answering"}),
    FaultAction.ERROR: frozenset({"handling"}),
    FaultAction.DUPLICATE: frozenset({"handling"}),
    FaultAction.DROP_ACK: frozenset({"answering"}),
    FaultAction.CUT_RESPONSE: frozenset({"answering"}),
    FaultAction.SWALLOW: frozenset({"answering"}),
    FaultAction.LATE_REQUEST: frozenset({"answering"}),
}
"""What of a request these take for themselves: of two that want the same only one can do what it says."""
_NEEDED: Final[Mapping[FaultAction, str]] = {
    FaultAction.DELAY: "ms",
    FaultAction.DELAY_REQUEST: "ms",
    FaultAction.THROTTLE: "ms",
    FaultAction.ERROR: "code",
    FaultAction.ERROR_AFTER: "code",
    FaultAction.PAUSE: "step",
    FaultAction.CRASH: "step",
}


@dataclass(slots=True)
class FaultRule:
    """One rule. Text fields match by shell patterns (`orders-*`); a field left out matches everything.

    The first `after` matches pass unhurt; of the rest a `share` (0 to 1, drawn from `seed`) is hit, at most `times` of them.
    `name` is what `release` and the command line call it.
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
    code: ErrorCode | None = None
    step: str | None = None
    name: str = ""
    seen: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)
    _random: random.Random = field(init=False, repr=False, compare=False)
    _counting: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """One rule may be loaded on several brokers of a process: it counts over all of them."""

    def __post_init__(self) -> None:
        needed = _NEEDED.get(self.action)
        if needed is not None and getattr(self, needed) is None:
            raise FaultSyntax(f"fault {self.action.value}: it needs {needed}=…")
        if not 0 <= self.share <= 1:
            raise FaultSyntax(f"fault {self.action.value}: share is between 0 and 1")
        if self.step is not None and self.step not in STEPS:
            raise FaultSyntax(f"fault {self.action.value}: step is one of {', '.join(STEPS)}")
        if (self.ms or 0) > _MS_MAX:
            raise FaultSyntax(f"fault {self.action.value}: ms is at most {_MS_MAX}")
        for limit in ("after", "times", "ms", "bytes"):
            if (getattr(self, limit) or 0) < 0:
                raise FaultSyntax(f"fault {self.action.value}: {limit} is not below 0")
        self._random = random.Random(self.seed)

    @property
    def spent(self) -> bool:
        """True when it hit as often as it may."""
        return self.times is not None and self.hits >= self.times

    @property
    def consumed(self) -> bool:
        """True when it did all that it was there for: `times` hits, or at least one where no number was given."""
        return self.hits >= (1 if self.times is None else self.times)

    def hits_request(self, subject: Subject, *, may_hit: bool = True) -> bool:
        """Whether this request meets the rule; counts it. `may_hit`: False where an earlier rule left it nothing to do."""
        if self.action in NOT_OF_REQUESTS:
            return False
        if self.api is not None and self.api is not subject.api:
            return False
        if self.connection is not None and self.connection != subject.connection:
            return False
        if self.client_id is not None and not fnmatchcase(subject.client_id, self.client_id):
            return False
        return (
            _any(self.transactional_id, subject.transactional_ids)
            and _any(self.group, subject.groups)
            and (not self.of_partitions or any(self.wants(*each) for each in subject.partitions))
            and self.draw(may_hit=may_hit)
        )

    @property
    def of_partitions(self) -> bool:
        """Whether it is for some topics or partitions only."""
        return self.topic is not None or self.partition is not None

    def wants(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition of a request is one of those that the rule is for."""
        if self.topic is not None and (topic is None or not fnmatchcase(topic, self.topic)):
            return False
        return self.partition is None or partition is None or self.partition == partition

    def hits_step(self, step: str, transactional_id: str, topic: str | None, partition: int | None) -> bool:
        """Whether the coordinator is stopped at this step; counts it."""
        return (
            self.action in AT_STEPS
            and self.step == step
            and _any(self.transactional_id, {transactional_id})
            and self.wants(topic, partition)
            and self.draw()
        )

    def draw(self, *, may_hit: bool = True) -> bool:
        """Whether this match is hit, of those that remain; counts it."""
        with self._counting:
            if self.spent:
                return False
            self.seen += 1
            if not may_hit or self.seen <= self.after or (self.share < 1 and self._random.random() >= self.share):
                return False
            self.hits += 1
            return True

    def to_json(self) -> dict[str, Any]:
        """What was given, and what was counted."""
        told: dict[str, Any] = {"action": self.action.value}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.init and item.name != "action" and value != item.default:
                told[item.name] = value.name if isinstance(value, Enum) else value
        return {**told, "seen": self.seen, "hits": self.hits, "consumed": self.consumed}

    def __str__(self) -> str:
        told = self.to_json()
        given = ",".join(f"{name}={value}" for name, value in told.items() if name not in {"action", "seen", "hits", "consumed"})
        return f"{self.action.value}{':' if given else ''}{given}: {self.hits} of {self.seen} hit"


_FIELDS: Final = {item.name: item.type for item in fields(FaultRule) if item.init and item.name != "action"}
_NUMBERS: Final = frozenset({"partition", "connection", "after", "times", "seed", "ms", "bytes"})


def parse_rule(text: str) -> FaultRule:
    """A rule from `action:name=value,…`; raises FaultSyntax."""
    action, _, rest = text.partition(":")
    return make_rule({"action": action, **dict(part.partition("=")[::2] for part in rest.split(",") if part)})


def make_rule(given: Mapping[str, Any]) -> FaultRule:
    """A rule from its fields by name, as JSON has them or as text; raises FaultSyntax."""
    values = {name.replace("-", "_"): value for name, value in given.items()}
    action = str(values.pop("action", ""))
    try:
        kind = FaultAction(action)
    except ValueError:
        raise FaultSyntax(f"unknown fault {action!r}; there are {', '.join(each.value for each in FaultAction)}") from None
    unknown = set(values) - set(_FIELDS)
    if unknown:
        raise FaultSyntax(f"fault {action}: unknown {', '.join(sorted(unknown))}; there are {', '.join(_FIELDS)}")
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
    if name in _NUMBERS:
        return int(value)
    return float(value) if name == "share" else str(value)


def _member(kind: type[Enum], action: str, what: str, value: Any) -> Any:
    text = str(value)
    wanted = text.replace("_", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == wanted or str(int(member.value)) == text:
            return member
    raise FaultSyntax(f"fault {action}: there is no {what} {text!r}")


def _any(pattern: str | None, values: set[str]) -> bool:
    return pattern is None or any(fnmatchcase(value, pattern) for value in values)
