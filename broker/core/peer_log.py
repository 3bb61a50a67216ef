"""Rate limit and escaping for log lines that a client or another peer can cause at will.

Rules:
* Text from a peer is escaped and cut.
* Lines about a peer's behaviour go to the logger `PEERS` and no other. In each window of PEER_LINES_WINDOW_S seconds only the first
  PEER_LINES lines of a kind are written.
* The kind of a line is its format string. So the number of kinds is bounded, and lines of one kind never suppress lines of another kind.
* The time is taken from the log record.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.core import limits

PEERS: Final = "ottla.broker.peers"


def shown(sent: str | None) -> str:
    """Return a peer's text for a log line: escaped, and cut after `PEER_TEXT_CHARS` characters."""
    if sent is None or len(sent) <= limits.PEER_TEXT_CHARS:
        return repr(sent)
    return f"{sent[: limits.PEER_TEXT_CHARS]!r} and {len(sent) - limits.PEER_TEXT_CHARS} more characters"


class PeerLines(logging.Filter):
    """A filter that passes the first `PEER_LINES` log lines of each kind in a window of time. Lines with the same format string are of one
    kind. The first line of a kind in the next window says how many were suppressed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[str, tuple[float, int]] = {}

    def admit(self, kind: str, now_s: float) -> int | None:
        """Count a log line of this kind at the time `now_s`, in seconds. Return None if the line is to be suppressed. Otherwise return how
        many lines of the kind were suppressed in the previous window, if this line is the first of a window, or else 0.
        """
        began, seen = self._windows.get(kind, (now_s, 0))
        suppressed = 0
        if not 0 <= now_s - began < limits.PEER_LINES_WINDOW_S:  # a negative difference, after the clock was set back, starts one too
            suppressed, began, seen = max(0, seen - limits.PEER_LINES), now_s, 0
        self._windows[kind] = (began, seen + 1)
        return suppressed if seen < limits.PEER_LINES else None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the log line. The last line of a kind before suppression gets a note that further lines are not written.
        The first line of the kind in the next window gets a note of how many were suppressed.
        """
        kind = str(record.msg)
        suppressed = self.admit(kind, record.created)
        if suppressed is None:
            return False
        if suppressed:
            record.msg = f"{kind} ({suppressed:,} such lines before it were suppressed)"
        elif self._windows[kind][1] == limits.PEER_LINES:
            record.msg = f"{kind} (further such lines are counted, not written, for up to {limits.PEER_LINES_WINDOW_S} s)"
        return True
