from __future__ import annotations

import pytest

from ottla.broker.core.failure import failure_of


def test_the_exception_of_work_is_returned() -> None:
    error = RuntimeError("a bug")

    def work() -> None:
        raise error

    assert failure_of(work) is error
    assert failure_of(lambda: 1) is None


def test_the_end_of_the_process_passes() -> None:
    def work() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        failure_of(work)
