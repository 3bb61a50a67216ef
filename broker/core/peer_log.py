"""Log lines that a peer can cause at will: what it sent is shown cut and escaped, and of each kind of line only the first few are written.

Rules: lines about what a peer did go to the logger `PEERS`, and to no other; a kind is the line's format, so there are only as many as
the source has, and one kind never hides another. Time comes with the record.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.broker.core import limits

PEERS: Final = "ottla.broker.peers"


def shown(sent: str | None) -> str:
    """What a peer sent, for a log line: escaped, and cut after `PEER_TEXT_CHARS`."""
    if sent is None or len(sent) <= limits.PEER_TEXT_CHARS:
        return repr(sent)
    return f"{sent[: limits.PEER_TEXT_CHARS]!r} and {len(sent) - limits.PEER_TEXT_CHARS} more characters"


class PeerLines(logging.Filter):
    """Lets the first `PEER_LINES` lines of a kind through in each window; the first of the next window tells how many it left out."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[str, tuple[float, int]] = {}

    def admit(self, kind: str, now_s: float) -> int | None:
        """None when this line is to be left out, else how many were left out since the one written before it."""
        began, seen = self._windows.get(kind, (now_s, 0))
        left_out = 0
        if not 0 <= now_s - began < limits.PEER_LINES_WINDOW_S:  # a clock set back begins a window too
            left_out, began, seen = max(0, seen - limits.PEER_LINES), now_s, 0
        self._windows[kind] = (began, seen + 1)
        return left_out if seen < limits.PEER_LINES else None

    def filter(self, record: logging.LogRecord) -> bool:
        """The `logging.Filter` face of `admit`; a line after left out ones, and the last before them, say so."""
        kind = str(record.msg)
        left_out = self.admit(kind, record.created)
        if left_out is None:
            return False
        if left_out:
            record.msg = f"{kind} ({left_out:,} such lines before it were left out)"
        elif self._windows[kind][1] == limits.PEER_LINES:
            record.msg = f"{kind} (further such lines are counted, not written, for up to {limits.PEER_LINES_WINDOW_S} s)"
        return True
