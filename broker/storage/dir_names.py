"""Names of the directories inside a data directory (Kafka's LogDirs and UnifiedLog.parseTopicPartitionName)."""

from __future__ import annotations

import re
from typing import Final

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
NAME_MAX: Final = 255

_DELETED: Final = re.compile(r".*-[0-9]+\.[0-9a-f]{32}-delete")
_PARTITION_DIR: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")


def partition_dir_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """Return the (topic, partition) that a directory of this name contains. Return None for any other name, such as that of a deleted,
    stray or future partition."""
    match = _PARTITION_DIR.fullmatch(name)
    if match is None or match["topic"] in {".", ".."} or int(match["partition"]) > 2**31 - 1:
        return None
    return match["topic"], int(match["partition"])


def is_deleted(name: str) -> bool:
    """Return whether a directory's name is one that Ottla or Kafka gives to a deleted partition. Directories with any other name are never
    removed."""
    return _DELETED.fullmatch(name) is not None


def partition_dir_name_with_suffix(topic: str, partition: int, unique: bytes, suffix: str) -> str:
    """Return the new name of a deleted or stray partition's directory: `<topic>-<partition>.<32 hex digits><suffix>`.

    `unique` are 16 random bytes, the source of the digits. The topic is shortened if the name would be too long for a file system.
    """
    tail = f"-{partition}.{unique.hex()}{suffix}"
    return topic[: NAME_MAX - len(tail)] + tail
