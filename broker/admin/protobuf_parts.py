"""How much a Protobuf message of a stranger holds, before it is made into JSON: two bytes are enough for a message inside it, and each
takes the library microseconds in which nobody else has his turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message


def parts_of(message: Message, most: int) -> int:
    """The messages and values in it; where there are more than `most`, some number above it, found without looking at all."""
    found, waiting = 0, [message]
    while waiting and found <= most:
        for _, value in waiting.pop().ListFields():
            if isinstance(value, (str, bytes, int, float)):
                found += 1
            elif hasattr(value, "ListFields"):
                found += 1
                waiting.append(value)
            else:
                found += len(value)
                if found > most:
                    break
                values = value.values() if hasattr(value, "values") else value  # of a map, or of a list
                waiting += [each for each in values if hasattr(each, "ListFields")]
    return found
