"""Validates topic names (Kafka's `Topic.validate`).

A valid name is also a safe file name: it has no separator and no space, is neither `.` nor `..`, and leaves room for `-<partition>`.
Programs that make paths from another node's topic names validate them first.
"""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249
PARTITION_MAX: Final = 2**31 - 1

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why `name` is not a valid topic name, as text for the client; None if it is valid."""
    if not name:
        return "the empty string is not allowed as a topic name"
    if name in {".", ".."}:
        return f"'{name}' is not allowed as a topic name"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name is {len(name)} characters long, more than {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
