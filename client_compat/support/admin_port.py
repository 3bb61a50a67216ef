"""A client of the admin port, Ottla's HTTP interface to load faults and move the broker's clock during a test (docs/faults.md).

A method that waits polls the broker, and raises TimeoutError if the state does not come.
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
    """Raised when the admin port rejects a call; the text is its error message."""


@dataclass(frozen=True, slots=True)
class AdminPort:
    """A client of one broker's admin port (Ottla's HTTP interface for tests), which controls faults and the broker's clock. Every method
    raises `AdminRefused` if the port rejects the call; a method that waits raises TimeoutError."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def options(self) -> tuple[str, ...]:
        """The options of `ottla serve` that open the admin port."""
        return "--admin-port", str(self.port), f"--admin-token={self.token}"

    def add(self, rule: str) -> str:
        """Load a fault rule in the format of the option `--fault`, such as `drop-ack:api=Produce,times=1`; return the rule's name. Raises
        `AdminRefused` if the rule is invalid."""
        action, _, rest = rule.partition(":")
        fields = dict(field.partition("=")[::2] for field in rest.split(",") if field)
        return str(self._ask("POST", "/faults", {"action": action, **fields})["name"])

    def hits(self, name: str) -> int:
        """Return how many requests the fault rule `name` has matched."""
        return int(self._ask("GET", f"/faults/{quote(name)}")["hits"])

    def wait_hit(self, name: str) -> None:
        """Wait until the fault rule `name` has matched a request."""
        self._until(f"a hit of {name}", lambda: self.hits(name) > 0)

    def wait_held(self) -> list[str]:
        """Wait until the broker's fault rules hold back at least one request or response; return a description of each."""
        self._until("something held", lambda: bool(self._ask("GET", "/held")))
        return [str(held["what"]) for held in self._ask("GET", "/held")]

    def release(self, name: str | None = None) -> int:
        """Let the broker process the requests and send the responses that the fault rule `name` holds back (None: that any rule holds
        back). Return their number."""
        return int(self._ask("POST", "/held/release" + (f"?rule={quote(name)}" if name else ""))["released"])

    def reset(self) -> None:
        """Unload all fault rules, and release everything that they hold back."""
        self._ask("DELETE", "/faults")

    def advance(self, ms: int) -> None:
        """Advance the broker's clock by `ms` milliseconds."""
        self._ask("POST", "/clock/advance", {"ms": ms})

    def mark(self, name: str) -> None:
        """Save the broker's present state under `name`; `rewind` restores it."""
        self._ask("POST", "/marks", {"name": name})

    def rewind(self, name: str) -> None:
        """Restore the state that `mark` saved under `name`, and wait until the broker serves requests again."""
        self._ask("POST", f"/marks/{quote(name)}/rewind")

    def wait_ready(self) -> None:
        """Wait until the admin port answers: it opens slightly later than the broker's own port."""

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
