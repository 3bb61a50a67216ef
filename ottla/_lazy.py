"""Lazy imports for the public modules: a name is imported from its real module on first access (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


class Extra:
    """An optional extra, installed by `pip install 'ottla[name]'`. `package` is one of its packages, to detect whether it is installed."""

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package

    @property
    def is_there(self) -> bool:
        return find_spec(self.package) is not None


def exports(face: str, homes: Mapping[str, str], extras: Mapping[str, Extra]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the public module named `face`. `homes` gives the module from which each name is imported on
    first access, `extras` the pip extra that a name needs. Without that extra, `__dir__` omits the name, and `__getattr__` raises
    ModuleNotFoundError with the extra's name."""

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
