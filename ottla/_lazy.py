"""How the public modules name what is elsewhere without importing it (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


class Extra:
    """What `pip install 'ottla[name]'` brings; `package` is one that is not there without it."""

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package

    @property
    def is_there(self) -> bool:
        return find_spec(self.package) is not None


def exports(face: str, homes: Mapping[str, str], extras: Mapping[str, Extra]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of the module named `face`: each name is imported from its home when it is first asked for, and
    listed where it can be. A package that is missing is told with the extra that brings it, as ModuleNotFoundError."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"ottla.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if name not in extras:
                raise
            extra = extras[name].name
            says = f"{face}.{name} needs the packages of the extra {extra!r}: pip install 'ottla[{extra}]' ({error})"
            raise ModuleNotFoundError(says, name=error.name) from error

    def names() -> list[str]:
        return sorted(name for name in homes if name not in extras or extras[name].is_there)

    return get, names
