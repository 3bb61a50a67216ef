"""The client processes of one run. All must end in time with exit code 0; otherwise the run fails, and the remaining ones are ended."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

POLL_S = 0.05
STAGE_TIMEOUT_S = 180.0
SPAWN = multiprocessing.get_context("spawn")


class RunFailed(RuntimeError):
    """Raised when a client process of a run failed, or the run did not end in time; the message says where to look."""


def log_to(path: Path) -> None:
    """Write the log of this client process (level, time and message) to a file that all client processes share."""
    logging.basicConfig(filename=path, format="%(asctime)s %(name)s %(levelname)s %(message)s")


class Workers:
    """Runs `target(*args)` for each tuple `args` of `arguments`, each in its own process, while the context lasts. Meanwhile the caller
    must call `any_alive` again and again, which raises `RunFailed` if a process failed or `timeout_s` seconds are over."""

    def __init__(
        self, target: Callable[..., None], arguments: Sequence[tuple[Any, ...]], client_log: Path, timeout_s: float = STAGE_TIMEOUT_S
    ) -> None:
        self._processes = [SPAWN.Process(target=target, args=args, daemon=True) for args in arguments]
        self._client_log, self._timeout_s = client_log, timeout_s

    def __enter__(self) -> Workers:
        self._deadline = time.monotonic() + self._timeout_s
        for process in self._processes:
            process.start()
        return self

    def any_alive(self) -> bool:
        """Wait a moment; return whether a process still runs. Raises `RunFailed` if a process ended with an exit code other than 0, or the
        time limit is over."""
        if time.monotonic() > self._deadline:
            raise RunFailed(f"a stage took more than {self._timeout_s:.0f} s; the clients' own words are in {self._client_log}")
        if bad := [process for process in self._processes if process.exitcode not in (None, 0)]:
            raise RunFailed(f"a client process ended with {bad[0].exitcode}; see above and {self._client_log}")
        alive = [process for process in self._processes if process.is_alive()]
        if alive:
            alive[0].join(POLL_S)
        return bool(alive)

    def finish(self, timeout_s: float) -> None:
        """Wait until all processes have ended with exit code 0. Raises `RunFailed` if one ends with another exit code, or after `timeout_s`
        seconds."""
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        while self.any_alive():
            pass

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()
