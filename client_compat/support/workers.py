"""Client processes of one stage: all end well within the time, or the stage fails and none is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

LOOK_S = 0.05
STAGE_TIMEOUT_S = 180.0


class RunFailed(RuntimeError):
    """A process of the run ended badly or the run did not end in time; the message says where to look."""


class Workers:
    """Starts the processes on entering; `any_alive` is the loop's condition."""

    def __init__(self, processes: Sequence[BaseProcess], client_log: Path) -> None:
        self._processes, self._client_log = processes, client_log

    def __enter__(self) -> Workers:
        self._deadline = time.monotonic() + STAGE_TIMEOUT_S
        for process in self._processes:
            process.start()
        return self

    def any_alive(self) -> bool:
        """Wait a moment, then say whether to look again. Raises `RunFailed`."""
        if time.monotonic() > self._deadline:
            raise RunFailed(f"a stage took more than {STAGE_TIMEOUT_S:.0f} s; the clients' own words are in {self._client_log}")
        if bad := [process for process in self._processes if process.exitcode not in (None, 0)]:
            raise RunFailed(f"a client process ended with {bad[0].exitcode}; see above and {self._client_log}")
        alive = [process for process in self._processes if process.is_alive()]
        if alive:
            alive[0].join(LOOK_S)
        return bool(alive)

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()
