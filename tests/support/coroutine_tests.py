"""Decorators for tests that are coroutines, which a runner executes on its own event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Made = TypeVar("Made")


def played_by(
    run: Callable[..., None], *args: Any, **kwargs: Any
) -> Callable[[Callable[Concatenate[Made, P], Awaitable[None]]], Callable[P, None]]:
    """Return a decorator that runs the test by `run(test, *args, **kwargs)`. The test's first parameter is made by `run`; pytest passes
    the others."""

    def of(test: Callable[Concatenate[Made, P], Awaitable[None]]) -> Callable[P, None]:
        @wraps(test)
        def played(*_: P.args, **given: P.kwargs) -> None:
            run(lambda made: test(made, **given), *args, **kwargs)

        _made, *of_pytest = signature(test).parameters.values()
        named: list[Parameter] = of_pytest
        played.__signature__ = Signature(named)  # type: ignore[attr-defined]  # pytest reads a test's parameters there
        del played.__wrapped__  # type: ignore[attr-defined]  # pytest would take the coroutine in place of the test
        return played

    return of
