"""Tests that are scenes: coroutines that a runner plays on a loop of its own."""

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
    """Play the test by `run(scene, *args, **kwargs)`. Its first parameter is what `run` makes for a scene, the others are pytest's."""

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
