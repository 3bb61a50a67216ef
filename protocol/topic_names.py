"""Which names a topic may have (Kafka's `Topic.validate`).

A legal name is also a safe file name: it has no separator and no blank, is neither `.` nor `..`, and leaves room for `-<partition>`.
Programs that make paths from names which another node sent use this rule first.
"""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249
PARTITION_MAX: Final = 2**31 - 1

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Return why `name` cannot be a topic's name, in words for the client; None if it can."""
    if not name:
        return "the empty string is not allowed as a topic name"
    if name in {".", ".."}:
        return f"'{name}' is not allowed as a topic name"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name is {len(name)} characters long, more than {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
