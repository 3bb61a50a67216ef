"""Counts the messages and values inside an untrusted Protobuf message, before the message is converted to JSON.

A limit in bytes is not enough: two bytes encode a nested message, and converting each takes the library microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message


def parts_of(message: Message, max_parts: int) -> int:
    """Return the number of messages and values in `message`. If there are more than `max_parts`, stop counting and return some number
    greater than `max_parts`."""
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
