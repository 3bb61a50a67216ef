"""How many files this process may have open. A shell gives 1024, macOS 256; what may be raised without asking is usually far more."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

ENOUGH: Final = 65_536
"""As many partitions, connections and syncs as one process can serve; what some systems have above it, a few libraries walk through."""
_OF_MACOS: Final = 10_240
"""The most that macOS grants, whatever it says that it would."""
_OF_WINDOWS: Final = 8_192


if sys.platform == "win32":

    def most_open_files() -> int:
        """The limit in force."""
        return _OF_WINDOWS

    def allow_open_files() -> int:
        """Raises the limit as far as is of use and may be done; returns what is in force then."""
        return _OF_WINDOWS

else:
    import resource

    def most_open_files() -> int:
        """The limit in force."""
        return _capped(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def allow_open_files() -> int:
        """Raises the limit as far as is of use and may be done; returns what is in force then."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for wanted in (_OF_MACOS, ENOUGH):  # whichever is refused, the other may not be
            if _capped(soft) < (allowed := min(wanted, _capped(hard))):
                with contextlib.suppress(ValueError, OSError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
                    soft = allowed
        return most_open_files()

    def _capped(limit: int) -> int:
        return ENOUGH if limit == resource.RLIM_INFINITY else min(limit, ENOUGH)
