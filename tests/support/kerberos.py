"""A Kerberos realm for tests. If Kerberos or python-gssapi is not installed, the test is skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from client_compat.support.kerberos import KerberosMissing, Realm, in_environment


def why_missing() -> str | None:
    """Return which program or package is missing, or None; for tests that can run without Kerberos."""
    try:
        import gssapi  # noqa: F401 # only to check that it is installed
    except ImportError:
        return "python-gssapi is not installed ('make kerberos')"
    try:
        Realm.look_for_programs()
    except KerberosMissing as missing:
        return str(missing)
    return None


@contextmanager
def realm_or_skip(directory: Path, principals: Sequence[str]) -> Iterator[Realm]:
    """Run a realm, and configure this process for it."""
    if (missing := why_missing()) is not None:
        pytest.skip(missing)
    with Realm(directory, principals) as realm, in_environment(realm.environment):
        yield realm
