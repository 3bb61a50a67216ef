"""The admin port of a broker (docs/faults.md) over HTTP: scripted faults and the clock, for programs that see only sockets.

Rule: every wait is for something that the broker tells, and ends with TimeoutError.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from client_compat.support.brokers import HOST

WAIT_S = 30.0
POLL_S = 0.005


class AdminRefused(RuntimeError):
    """The admin port's own words about a call that it did not take."""


@dataclass(frozen=True, slots=True)
class AdminPort:
    """One broker's admin port."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def options(self) -> tuple[str, ...]:
        """What `ottla serve` needs to open it."""
        return "--admin-port", str(self.port), f"--admin-token={self.token}"

    def add(self, rule: str) -> str:
        """Load a rule as the command line writes it, `drop-ack:api=Produce,times=1`; its name. Raises `AdminRefused`."""
        action, _, rest = rule.partition(":")
        fields = dict(field.partition("=")[::2] for field in rest.split(",") if field)
        return str(self._ask("POST", "/faults", {"action": action, **fields})["name"])

    def hits(self, name: str) -> int:
        """How many requests the rule hit so far."""
        return int(self._ask("GET", f"/faults/{quote(name)}")["hits"])

    def wait_hit(self, name: str, times: int = 1) -> None:
        """Wait until the rule hit so often."""
        self._until(f"{times} hits of {name}", lambda: self.hits(name) >= times)

    def wait_held(self, count: int = 1) -> list[str]:
        """Wait until so much is held; what it is."""
        self._until(f"{count} held", lambda: len(self._ask("GET", "/held")) >= count)
        return [str(held["what"]) for held in self._ask("GET", "/held")]

    def release(self, name: str | None = None) -> int:
        """Let go what the rule holds, or everything; how much that was."""
        return int(self._ask("POST", "/held/release" + (f"?rule={quote(name)}" if name else ""))["released"])

    def reset(self) -> None:
        """Unload all rules and release everything."""
        self._ask("DELETE", "/faults")

    def advance(self, ms: int) -> None:
        """Put the broker's clock forward."""
        self._ask("POST", "/clock/advance", {"ms": ms})

    def wait_ready(self) -> None:
        """Wait until it answers: it opens a little after the broker's own port."""

        def answers() -> bool:
            try:
                return bool(self._ask("GET", "/health"))
            except OSError:
                return False

        self._until("an answer of the admin port", answers)

    def _until(self, what: str, found: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not found():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WAIT_S:.0f} s: {what}")
            time.sleep(POLL_S)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AdminRefused(error.read().decode()) from error
        return json.loads(text) if text else None
