"""How the public modules name what is elsewhere without importing it (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(face: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of the module named `face`: each name is imported from its home when it is first asked for."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(import_module(f"ottla.{homes[name]}"), name)

    return get
