"""A log of the corpus: the function that writes it, and the expected findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Expected = tuple[str, str, str, str]
"""A finding that the audit must report: (rule, severity, kind, topic-partition@offset)."""


class Case(NamedTuple):
    """A log of the corpus, with the findings that the audit must report. `write` creates the log in a directory; if `directories` is set,
    it creates several directories there, which are replicas of one another. `expected` is the exact set of findings; a legal log has none
    of severity violation."""

    write: Callable[[Path], None]
    expected: list[Expected]
    directories: tuple[str, ...] = ()
