"""A log of the corpus: how it is written, and what the audit must say of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Expected = tuple[str, str, str, str]
"""Rule, severity, kind, topic-partition@offset."""


class Case(NamedTuple):
    """`write` makes the directory, or several directories in it (see `directories`: replicas of one another); `expected` are all findings,
    no more and no less. None are expected of a legal log, but infos where there is something to tell."""

    write: Callable[[Path], None]
    expected: list[Expected]
    directories: tuple[str, ...] = ()
