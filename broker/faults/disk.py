"""A disk that a rule can fill: the writes of the broker's files, while a `disk-full` rule is loaded.

Rule: with no such rule the files are the operating system's own, without a layer in between.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.faults.engine import Faults
from broker.faults.rules import FaultAction
from broker.storage.files import Buffer, Files

_PARTITION_DIR: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")


class FillableFiles(Files):
    """The operating system's files, whose appends to `.log` files can fail with ENOSPC as the rules of `faults` say."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._logs: dict[int, tuple[str, int]] = {}
        faults.on_disk_rules = self._rules_changed
        self._rules_changed()

    def open(self, path: Path) -> int:
        fd = super().open(path)
        if path.suffix == ".log" and (match := _PARTITION_DIR.fullmatch(path.parent.name)):
            self._logs[fd] = (match["topic"], int(match["partition"]))
        return fd

    def close(self, fd: int) -> None:
        self._logs.pop(fd, None)
        super().close(fd)

    def _rules_changed(self) -> None:
        if any(rule.action is FaultAction.DISK_FULL for rule in self._faults.rules):
            self.pwrite = self._pwrite_or_fail  # type: ignore[method-assign] # so that without a rule nothing is asked
        else:
            self.__dict__.pop("pwrite", None)

    def _pwrite_or_fail(self, fd: int, buffers: Sequence[Buffer], position: int) -> None:
        place = self._logs.get(fd)
        if place is not None and self._faults.fills_disk(*place):
            raise OSError(errno.ENOSPC, "No space left on device (a scripted fault)")
        super().pwrite(fd, buffers, position)
