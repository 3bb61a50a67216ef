"""The limit of open files of this process. Shells often set 1,024 and macOS 256, while a process may usually raise its own limit
far higher.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Final

OPEN_FILES_WANTED: Final = 65_536
"""The maximum number of open files that this process requests from the system: enough for the partitions, connections and syncs of one
process. It is not higher because some libraries iterate over all possible descriptors.
"""
_OF_MACOS: Final = 10_240
"""The most open files that macOS lets a process have, even if it reports a higher hard limit."""
_OF_WINDOWS: Final = 8_192
_OPEN_SEGMENTS: Final = 4_096


if sys.platform == "win32":

    def max_open_files() -> int:
        """Return the maximum number of open files of this process, which is fixed on Windows."""
        return _OF_WINDOWS

    def allow_open_files() -> int:
        """Return the maximum number of open files of this process. On Windows it is fixed, so this function cannot increase it."""
        return _OF_WINDOWS

else:
    import resource

    def max_open_files() -> int:
        """Return the maximum number of open files of this process, at most OPEN_FILES_WANTED."""
        return _capped(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def allow_open_files() -> int:
        """Raise this process's limit of open files up to OPEN_FILES_WANTED, as far as the system permits; return the limit in force."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for wanted in (_OF_MACOS, OPEN_FILES_WANTED):  # macOS refuses the larger value but grants the smaller one
            if _capped(soft) < (allowed := min(wanted, _capped(hard))):
                with contextlib.suppress(ValueError, OSError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
                    soft = allowed
        return max_open_files()

    def _capped(limit: int) -> int:
        return OPEN_FILES_WANTED if limit == resource.RLIM_INFINITY else min(limit, OPEN_FILES_WANTED)


def max_open_segments() -> int:
    """Return how many log segments one broker may keep open: at most an eighth of the process's file descriptors, because a process may
    contain several brokers.
    """
    return min(_OPEN_SEGMENTS, max_open_files() // 8)


def max_connections() -> int:
    """Return how many connections the process may have: half of its file descriptors. The rest is for open segments and other files.

    A broker that cannot open a file stops, so clients must not be able to use all descriptors.
    """
    return max_open_files() // 2
