"""A rule broken on purpose: one decision of a broker or a controller, in this process and as long as it is `made`. Types and names stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """`instead(original)` gives what stands in the place of a method, of a property's getter, or of what a module calls by that name."""

    rule: str
    owner: type | ModuleType
    name: str
    instead: Callable[[Any], Callable[..., Any]]
    also: Mutation | None = None
    """Where two watch over one rule: the other one."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """The rule is broken as long as this lasts."""
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


def nothing(original: Any) -> Callable[..., None]:
    """In whose place nothing is done."""
    return lambda *_, **__: None
