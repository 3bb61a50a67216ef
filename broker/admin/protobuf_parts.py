"""Counts the parts of an untrusted Protobuf message before it is converted to JSON.

Two bytes are enough for a nested message, and each costs the library microseconds during which the loop is blocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message


def parts_of(message: Message, max_parts: int) -> int:
    """Return the number of messages and values in `message`; if there are more than `max_parts`, return early with a number
    above it."""
    found, waiting = 0, [message]
    while waiting and found <= max_parts:
        for _, value in waiting.pop().ListFields():
            if isinstance(value, (str, bytes, int, float)):
                found += 1
            elif hasattr(value, "ListFields"):
                found += 1
                waiting.append(value)
            else:
                found += len(value)
                if found > max_parts:
                    break
                values = value.values() if hasattr(value, "values") else value  # of a map, or of a list
                waiting += [each for each in values if hasattr(each, "ListFields")]
    return found
