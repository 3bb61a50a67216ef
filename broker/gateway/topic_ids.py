"""Reads the topics' ids from a Metadata response without decoding its partitions.

Rules:
- Versions 10 (the first with ids) to 13 have the same layout up to the end of the topics.
- Every length moves the position forward, and a read beyond the end raises. So a wrong length cannot cause an endless loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import ZERO_UUID
from ottla.protocol.wire import Bad, read_string_length, read_uvarint, skip_tags

FIRST_VERSION: Final = 10
_AFTER_TOPICS: Final = {10: 4, 13: 2}
"""The number of bytes after the topics in a Metadata response, by version: cluster_authorized_operations in version 10, error_code in 13,
nothing in the others."""


def topic_ids(version: int, buf: memoryview, pos: int) -> Iterator[tuple[bytes, str] | None]:
    """Yield (id, name) for each topic of a Metadata response in `buf` that has both, and None after each partition, so that the caller can
    pause the reading. `pos` is the position after the brokers.

    Raises MalformedMessage for an invalid response, also if bytes follow it.
    """
    end = len(buf)
    try:
        size, pos = read_string_length(buf, pos)
        topics, pos = read_uvarint(buf, pos + max(0, size - 1) + 4)  # after cluster_id and controller_id
        for _ in range(topics - 1):
            size, pos = read_string_length(buf, pos + 2)
            stop = pos + max(0, size - 1)
            partitions, at = read_uvarint(buf, stop + 17)  # after topic_id and is_internal
            name, topic_id = str(buf[pos:stop], "utf-8"), bytes(buf[stop : stop + 16])
            for _ in range(partitions - 1):
                at += 14
                for _ in range(3):  # replicas, in-sync and offline replicas
                    count, at = buf[at], at + 1
                    if count > 127:
                        count, at = read_uvarint(buf, at - 1)
                    if count:
                        at += 4 * count - 4
                at = skip_tags(buf, at, end) if buf[at] else at + 1
                yield None
            pos = skip_tags(buf, at + 4, end)
            yield (topic_id, name) if name and topic_id != ZERO_UUID else None
        pos = skip_tags(buf, pos + _AFTER_TOPICS.get(version, 0), end)
        if pos != end:
            raise Bad(f"{end - pos} bytes follow its end")
    except (Bad, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"MetadataResponse v{version}", "topics", pos, str(error)) from None
