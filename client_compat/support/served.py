"""Waits until every client has got the response to at least one more request. A campaign waits for this between two faults, so that each
fault hits clients that are at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from client_compat.support.workers import RunFailed

POLL_S = 0.01


def wait_until_served(answered: Callable[[], Sequence[int]], check: Callable[[], None], timeout_s: float) -> None:
    """Wait until each of the counts that `answered` returns (answered requests, one count per client) has grown. `check` raises when a
    client process has ended. Raises `RunFailed` on a timeout."""
    before, deadline = list(answered()), time.monotonic() + timeout_s
    while any(now == then for now, then in zip(answered(), before, strict=True)):
        check()
        if time.monotonic() > deadline:
            since = [now - then for now, then in zip(answered(), before, strict=True)]
            raise RunFailed(f"a client was not served within {timeout_s:.0f} s (answers since, one by one: {since})")
        time.sleep(POLL_S)
