"""Runs a function and returns its exception instead of raising it."""

from __future__ import annotations

from collections.abc import Callable


def failure_of(work: Callable[[], object]) -> Exception | None:
    """Run `work`; return the exception that it raised, or None."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 # whatever is wrong in one piece of work must not end the work of others
        return error
    return None
