"""A mutation: a rule of a broker or controller that is broken on purpose, to test whether the simulation detects it. One function is
replaced in this process, inside the context manager `made`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """A rule of a broker or controller that can be broken on purpose. `instead(original)` returns the function that replaces the original:
    a method, a property's getter, or a module's function."""

    rule: str
    owner: type | ModuleType
    name: str
    instead: Callable[[Any], Callable[..., Any]]
    also: Mutation | None = None
    """A second replacement that is made together with this one, if two places in the code enforce the rule."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """Replace the function, and so break the rule, inside the context; restore the original at its end."""
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
    """Return a value for a Mutation's `instead`: the original function is then replaced by one that returns `value` for any arguments."""
    return lambda original: lambda *_, **__: value


def nothing(original: Any) -> Callable[..., None]:
    """For use as a Mutation's `instead`: the original function is then replaced by one that does nothing and returns None."""
    return lambda *_, **__: None
