from __future__ import annotations

import pytest

from ottla.broker.core.failure import failure_of


def test_failure_of_returns_the_exception() -> None:
    error = RuntimeError("a bug")

    def work() -> None:
        raise error

    assert failure_of(work) is error
    assert failure_of(lambda: 1) is None


def test_failure_of_does_not_catch_system_exit() -> None:
    def work() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        failure_of(work)
