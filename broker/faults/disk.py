"""Simulates a full disk: `disk-full` fault rules make the broker's writes to its log files fail.

Without such a rule, calls go directly to the underlying files.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import FaultAction
from ottla.broker.storage.files import FILES, Files
from ottla.protocol.wire import Buffer

_PARTITION_DIR: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")


class FillableFiles(Files):
    """A wrapper of `files` that simulates a full disk: if a `disk-full` rule of `faults` applies, a write to a partition's `.log` file
    fails with ENOSPC."""

    def __init__(self, faults: Faults, files: Files = FILES) -> None:
        self._faults = faults
        self._files = files
        own = vars(FillableFiles)
        self.__dict__.update({name: getattr(files, name) for name in vars(Files) if not name.startswith("_") and name not in own})
        self._logs: dict[int, tuple[str, int]] = {}

    def apply_rules(self) -> None:
        """From now on, let `disk-full` rules act on writes through this object. After a restart of the broker, this object replaces the one
        of the previous start, which is no longer notified of changed rules."""
        self._faults.on_disk_rules = self._rules_changed
        self._rules_changed()

    def open(self, path: Path) -> int:
        fd = self._files.open(path)
        if path.suffix == ".log" and (match := _PARTITION_DIR.fullmatch(path.parent.name)):
            self._logs[fd] = (match["topic"], int(match["partition"]))
        return fd

    def close(self, fd: int) -> None:
        self._logs.pop(fd, None)
        self._files.close(fd)

    def _rules_changed(self) -> None:
        if any(rule.action is FaultAction.DISK_FULL for rule in self._faults.rules):
            self.pwrite = self._pwrite_or_fail  # type: ignore[method-assign] # so that without a rule a write costs nothing more
        else:
            self.pwrite = self._files.pwrite  # type: ignore[method-assign] # so that without a rule a write costs nothing more

    def _pwrite_or_fail(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        place = self._logs.get(fd)
        if place is not None and self._faults.fills_disk(*place):
            raise OSError(errno.ENOSPC, "No space left on device (a scripted fault)")
        self._files.pwrite(fd, buffers, position)
