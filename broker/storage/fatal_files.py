"""Stops a cluster broker at the first disk error, so that the controller elects other replicas as leaders. While the broker lives, the
controller does not do so.

Source: Kafka's LogDirFailureChannel, LogManager.handleLogDirFailure, which halts a broker without an online log directory. This broker has
one log directory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ottla.broker.storage.files import Files

_WATCHED: Final = tuple(name for name in vars(Files) if not name.startswith("_") and name != "lock")


class FatalFiles(Files):
    """The file access of a cluster broker: passes every call to `files`, and calls `on_failure` once, with the first `OSError`, on the
    thread on which the error occurred.

    `on_failure` may be set after construction; errors before that are not reported. A FileNotFoundError counts as a failure only if `root`,
    the data directory, is missing, too.
    """

    def __init__(self, root: Path, files: Files) -> None:
        self.on_failure: Callable[[OSError], object] | None = None
        self._root = root
        self._files = files
        self.lock = files.lock  # type: ignore[method-assign] # a lock held by another broker is no disk failure
        self.__dict__.update({name: self._watched(name) for name in _WATCHED})

    def _watched(self, name: str) -> Callable[..., Any]:
        files = self._files

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return getattr(files, name)(*args, **kwargs)
            except OSError as error:
                self._failed(error)
                raise

        return call

    def _failed(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError) and self._files.exists(self._root):
            return
        on_failure, self.on_failure = self.on_failure, None
        if on_failure is not None:
            on_failure(error)
