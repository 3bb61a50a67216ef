"""Lets signals end a long command as Ctrl-C does, so that its brokers and clients end with it."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise SystemExit in the main thread, with the shell's exit code for them. Call it in `main`."""
    for number in SIGNALS:
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
