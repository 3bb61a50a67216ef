"""A rule that is broken on purpose: one function of a broker or controller is replaced in this process, for the duration of `made`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """A rule that is broken on purpose by a replacement: `instead(original)` returns the substitute of a method, a property's getter, or a
    module's function."""

    rule: str
    owner: type | ModuleType
    name: str
    instead: Callable[[Any], Callable[..., Any]]
    also: Mutation | None = None
    """A second replacement, if two places enforce the rule."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """Replace the function, and so break the rule, while the context lasts."""
        with self._replaced(), nullcontext() if self.also is None else self.also.made():
            yield

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        original = self.owner.__dict__[self.name]
        is_property = isinstance(original, property)
        changed = self.instead(original.fget if is_property else original)
        setattr(self.owner, self.name, property(changed) if is_property else changed)
        try:
            yield
        finally:
            setattr(self.owner, self.name, original)


def always(value: Any) -> Callable[[Any], Callable[..., Any]]:
    """Return a function for use as a Mutation's `instead`; its substitute returns `value` for any arguments."""
    return lambda original: lambda *_, **__: value


def nothing(original: Any) -> Callable[..., None]:
    """Return a substitute that does nothing and returns None; for use as a Mutation's `instead`."""
    return lambda *_, **__: None
