"""A disk whose syncs block until the test releases them, or fail."""

from __future__ import annotations

import threading

from ottla.broker.storage.files import Files


class SlowDisk(Files):
    """A disk whose data syncs block after `arm` until the test releases them. If `error` is set, they then fail with it."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(1000)
        self.armed = False
        self.error: OSError | None = None

    def arm(self) -> None:
        self.armed, self.gate = True, threading.Semaphore(0)

    def fsync(self, fd: int) -> None:
        if self.armed:
            assert self.gate.acquire(timeout=60)
        if self.error is not None:
            raise self.error
        super().fsync(fd)
