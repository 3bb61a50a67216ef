"""Opens the output of the wire log, which has a line for each request: a file, or standard output. Does not import the command line's
libraries."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ottla.broker.faults.rules import parse_filter
from ottla.broker.faults.wire_log import WireLog

STANDARD_OUTPUT = "-"

logger = logging.getLogger("ottla.broker")


class _Lines:
    """Appends lines to a file that only its owner can read. After the first failed write it logs an error and ignores further lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: TextIO | None = sys.stdout if path == STANDARD_OUTPUT else open(path, "a", 1, "utf-8", opener=_private)  # noqa: SIM115 # it is open as long as the process, and Path.open has no opener

    def write(self, line: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            name = "standard output" if self._path == STANDARD_OUTPUT else self._path
            logger.error("The log of requests ends: %s cannot be written: %s", name, error.strerror)
            self._file = None


def wire_log(path: str, only: Sequence[str] = (), *, as_json: bool = False, errors: bool = False, slower_than_ms: float = 0) -> WireLog:
    """Return an observer that writes a line for each request to the file `path`, or to standard output for "-".

    A request is logged if it took at least `slower_than_ms` and one of the filters `only` matches (without filters: always); with `errors`,
    only if its response has an error. Raises OSError if the file cannot be opened, FaultSyntax for an invalid filter.
    """
    wanted = [parse_filter(text) for text in only]
    return WireLog(_Lines(path).write, wanted, as_json=as_json, errors_only=errors, slower_than_ms=slower_than_ms)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
