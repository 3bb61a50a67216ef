"""Names of the directories inside a data directory (Kafka's LogDirs and UnifiedLog.parseTopicPartitionName)."""

from __future__ import annotations

import re
from typing import Final

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
NAME_MAX: Final = 255

_DELETED: Final = re.compile(r".*-[0-9]+\.[0-9a-f]{32}-delete")
_LIVE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")


def live_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_live(name: str) -> tuple[str, int] | None:
    """Return (topic, partition) of a live partition's directory; None for any other name."""
    match = _LIVE.fullmatch(name)
    if match is None or match["topic"] in {".", ".."} or int(match["partition"]) > 2**31 - 1:
        return None
    return match["topic"], int(match["partition"])


def is_deleted(name: str) -> bool:
    """Return whether a directory is that of a deleted partition, by Ottla or Kafka. No other directory may be removed."""
    return _DELETED.fullmatch(name) is not None


def set_aside(topic: str, partition: int, unique: bytes, suffix: str) -> str:
    """Return `<topic>-<p>.<32 hex digits><suffix>`, with the topic shortened if the name is too long for a file system."""
    tail = f"-{partition}.{unique.hex()}{suffix}"
    return topic[: NAME_MAX - len(tail)] + tail
