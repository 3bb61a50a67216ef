"""A Kerberos realm for tests; where it, or python-gssapi, is not installed, the test says so and is skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from client_compat.support.kerberos import KerberosMissing, Realm, in_environment


def why_missing() -> str | None:
    """What there is not, if anything; for a test that goes on without."""
    try:
        import gssapi  # noqa: F401 # whether it is there
    except ImportError:
        return "python-gssapi is not installed ('make kerberos')"
    try:
        Realm.look_for_programs()
    except KerberosMissing as missing:
        return str(missing)
    return None


@contextmanager
def realm_or_skip(directory: Path, principals: Sequence[str]) -> Iterator[Realm]:
    """Running, and this process is in it."""
    if (missing := why_missing()) is not None:
        pytest.skip(missing)
    with Realm(directory, principals) as realm, in_environment(realm.environment):
        yield realm
