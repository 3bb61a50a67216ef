"""Log lines about a state that lasts, such as an unreachable controller: one line when it begins, then fewer and fewer.

Rules:
* A state is logged when it begins, then after `STATE_STILL_MS`, then after pauses that double up to `STATE_STILL_MS_MAX`, and when it ends.
* A state that begins again within `STATE_CALM_MS` of its end counts as the same state, so a flapping state logs as little as a lasting one.
* At most `STATES_MAX` states are remembered; the oldest is forgotten first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ottla.broker.core import limits


@dataclass(slots=True)
class _State:
    since_ms: int
    still_ms: int
    """The monotonic time at which the next log line about the state is due, if it still lasts."""
    pause_ms: int = limits.STATE_STILL_MS
    times: int = 1
    ended_ms: int | None = None
    logged: bool = True
    """Whether a line about the state was logged since the state's last end. If so, the next end is logged, too."""


class StateLines:
    """Logs the lasting states of one component, such as an unreachable controller. `logger` is the component's logger, `now_ms` its
    monotonic clock.
    """

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], int]) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._states: dict[Hashable, _State] = {}

    def __bool__(self) -> bool:
        """Return whether any reported state is remembered: one that lasts, or one that ended and may begin again."""
        return bool(self._states)

    def report(self, state: Hashable, level: int, line: str, *args: object, error: BaseException | None = None) -> None:
        """Report that a state begins or still lasts. `line` is logged if the state begins, or if the next line about it is due; only the
        first line has the traceback of `error`.
        """
        now_ms = self._now_ms()
        known = self._states.get(state)
        if known is None or (known.ended_ms is not None and now_ms - known.ended_ms >= limits.STATE_CALM_MS):
            self._begin(state, now_ms)
            self._logger.log(level, line, *args, exc_info=error)
            return
        known.ended_ms = None
        known.times += 1
        if now_ms >= known.still_ms:
            known.pause_ms = min(2 * known.pause_ms, limits.STATE_STILL_MS_MAX)
            known.still_ms = now_ms + known.pause_ms
            known.logged = True
            still = (now_ms - known.since_ms) // 1_000
            self._logger.log(level, f"{line} (still, %d times in %d s)", *args, known.times, still)

    def ended(self, state: Hashable, line: str, *args: object) -> None:
        """Report that a state has ended. `line` is logged only if a line about this state was logged since the state's previous end."""
        known = self._states.get(state)
        if known is None or known.ended_ms is not None:
            return
        known.ended_ms = self._now_ms()
        if known.logged:
            known.logged = False
            self._logger.info(f"{line} (after %d s)", *args, (known.ended_ms - known.since_ms) // 1_000)

    def all_ended(self, line: str) -> None:
        """Report that every state has ended. `line` is logged at most once: if, for any of the states, a line was logged since that state
        last ended."""
        since_ms = [known.since_ms for known in self._states.values() if known.ended_ms is None and known.logged]
        for known in self._states.values():
            if known.ended_ms is None:
                known.ended_ms, known.logged = self._now_ms(), False
        if since_ms:
            self._logger.info(f"{line} (after %d s)", (self._now_ms() - min(since_ms)) // 1_000)

    def _begin(self, state: Hashable, now_ms: int) -> None:
        self._states.pop(state, None)
        if len(self._states) == limits.STATES_MAX:
            del self._states[next(iter(self._states))]
        self._states[state] = _State(now_ms, now_ms + limits.STATE_STILL_MS)
