"""Names of inputs and outputs: local paths, URLs and clusters. Does no I/O and imports no other package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCHEME_END: Final = "://"
CLUSTER: Final = "kafka://"
"""The scheme of clusters, which are read from brokers over the network and are not file systems (see `wire`)."""


def absolute(path: str | Path) -> str:
    """Return a local path as an absolute path; a URL unchanged."""
    return str(path) if is_url(path) else str(Path(path).absolute())


def is_url(path: str | Path) -> bool:
    """Return whether a path is a URL."""
    return SCHEME_END in str(path)


def below(path: str, name: str) -> str:
    """Return the path or URL of the file `name` in the directory `path`. If `path` is a URL, the result has its options (after `?`)."""
    if not is_url(path):
        return f"{path}/{name}"
    root, mark, options = path.partition("?")
    return f"{root.rstrip('/')}/{name}{mark}{options}"


def is_cluster(path: object) -> bool:
    """Return whether `path` is the URL of a cluster (`kafka://…`)."""
    return str(path).startswith(CLUSTER)
