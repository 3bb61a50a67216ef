"""A module of an installed package without the package's own body.

The body of `crc32c` reads its version and a command line, that of `javaproperties` an XML reader and an HTTP client: 180 modules of the
standard library for one function. Where processes are started by the second, their modules are taken by themselves. They are named below
this one, so that an `import` of the package elsewhere finds the package as it is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def module_of(package: str, name: str) -> ModuleType:
    """`package.name`; what it imports from its own package is found beside it. Raises ImportError."""
    alias = f"{__name__}.{package}"
    if alias not in sys.modules:
        spec = find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(f"No package named {package!r}", name=package)
        bodiless = ModuleType(alias)
        bodiless.__path__ = list(spec.submodule_search_locations)
        sys.modules[alias] = bodiless
    return import_module(f"{alias}.{name}")
