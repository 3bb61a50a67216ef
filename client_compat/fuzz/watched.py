"""`python -m client_compat.fuzz.watched FILE serve …`: run `ottla serve …` and record the longest turn (iteration) of its event loop in
FILE.

Rules:
- A turn is measured in CPU time of the loop's thread, so that a busy machine does not affect it.
- A timer reads this time every millisecond, which costs almost nothing. A turn is measured at most a few milliseconds too long.
- Both processes map FILE, so that reading it does not disturb the loop.
"""

from __future__ import annotations

import asyncio
import mmap
import runpy
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOK_EVERY_S: Final = 0.001
_NUMBER: Final = struct.Struct("=d")


class LongestTurn:
    """The longest turn (iteration) of the event loop since the last `reset`, in milliseconds of CPU time. The number is stored in a file
    that the measured process writes."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(_NUMBER.size))
        with file.open("r+b") as shared:
            self._shared = mmap.mmap(shared.fileno(), _NUMBER.size)

    @property
    def ms(self) -> float:
        found: float = _NUMBER.unpack_from(self._shared)[0]
        return found

    def reset(self) -> None:
        _NUMBER.pack_into(self._shared, 0, 0.0)

    def add(self, turn_ms: float) -> None:
        if turn_ms > self.ms:
            _NUMBER.pack_into(self._shared, 0, turn_ms)


def watch(loop: asyncio.AbstractEventLoop, longest: LongestTurn) -> None:
    """Measure each turn (iteration) of the event loop `loop`, which must not have started, and record the longest in `longest`."""
    last_ns = 0

    def look() -> None:
        nonlocal last_ns
        now_ns = time.thread_time_ns()
        if last_ns:
            longest.add((now_ns - last_ns) / 1e6)
        last_ns = now_ns
        loop.call_later(LOOK_EVERY_S, look)

    loop.call_soon(look)


def _watched(new_loop: Callable[[], asyncio.AbstractEventLoop], longest: LongestTurn) -> Callable[[], asyncio.AbstractEventLoop]:
    def made() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        watch(loop, longest)
        return loop

    return made


def main() -> None:
    longest = LongestTurn(Path(sys.argv.pop(1)))
    try:
        import uvloop  # noqa: PLC0415 # does not exist everywhere
    except ImportError:
        asyncio.new_event_loop = _watched(asyncio.new_event_loop, longest)
    else:
        uvloop.new_event_loop = _watched(uvloop.new_event_loop, longest)  # type: ignore[assignment] # any loop will do
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
