"""Scripted faults of a broker: which request meets which mishap. `--fault drop-ack:api=Produce,share=0.05,seed=7`.

Rules: without a rule nothing here is asked (`active` is one attribute); what a rule does depends only on its seed and on the requests
that came before, so a run can be repeated; a fault acts on what the client sees, never on what is stored.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocol.api_keys import ApiKey


class FaultSyntax(ValueError):
    """A rule that cannot be read; the text says what is expected."""


@dataclass(slots=True)
class DropAck:
    """Handle the request fully, then close the connection instead of answering: the lost acknowledgement of every exactly-once tutorial."""

    api: ApiKey
    share: float
    seed: int = 0
    dropped: int = 0
    seen: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def hits(self, api_key: int) -> bool:
        """Whether this request's response is lost; counts it."""
        if api_key != self.api:
            return False
        self.seen += 1
        if self._random.random() >= self.share:
            return False
        self.dropped += 1
        return True

    def __str__(self) -> str:
        return f"drop-ack of {self.api.name}: {self.dropped} of {self.seen} responses dropped"


class Faults:
    """All rules of a broker."""

    def __init__(self, rules: Iterable[DropAck] = ()) -> None:
        self.rules = list(rules)
        self.active = bool(self.rules)

    def drops_response(self, api_key: int) -> bool:
        """Whether the response to this request is to be lost."""
        return any([rule.hits(api_key) for rule in self.rules])  # noqa: C419 # every rule must count the request

    def report(self) -> list[str]:
        """One line a rule: what it did."""
        return [str(rule) for rule in self.rules]


def parse_rule(text: str) -> DropAck:
    """A rule from `kind:name=value,…`; raises FaultSyntax."""
    kind, _, rest = text.partition(":")
    if kind != "drop-ack":
        raise FaultSyntax(f"unknown fault {kind!r}; there is: drop-ack:api=Produce,share=0.05,seed=7")
    given = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    unknown = set(given) - {"api", "share", "seed"}
    if unknown:
        raise FaultSyntax(f"fault {text!r}: unknown {', '.join(sorted(unknown))}; there are api, share and seed")
    try:
        share = float(given.get("share", "1"))
        seed = int(given.get("seed", "0"))
    except ValueError as error:
        raise FaultSyntax(f"fault {text!r}: {error}") from error
    if not 0 <= share <= 1:
        raise FaultSyntax(f"fault {text!r}: share is between 0 and 1")
    return DropAck(_api(text, given.get("api", "Produce")), share, seed)


def _api(text: str, name: str) -> ApiKey:
    wanted = name.replace("_", "").lower()
    for key in ApiKey:
        if key.name.replace("_", "").lower() == wanted:
            return key
    raise FaultSyntax(f"fault {text!r}: there is no API {name!r}")
