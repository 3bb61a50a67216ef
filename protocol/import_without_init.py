"""Imports a module of a package without running the package's `__init__`.

The `__init__` of `crc32c` and `javaproperties` imports a command line, an XML reader and an HTTP client. These are 180 modules of the
standard library, while Ottla needs one function. Importing them would slow down programs that are started every few seconds.

The imported modules are registered under names below `ottla.protocol.import_without_init`, so that an ordinary `import` of the package
still works.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def module_of(package: str, name: str) -> ModuleType:
    """Import the module `package.name` without running the package's `__init__`, and return it. Relative imports in the module work. Raises
    ImportError if there is no such module."""
    alias = f"{__name__}.{package}"
    if alias not in sys.modules:
        spec = find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError(f"No package named {package!r}", name=package)
        without_init = ModuleType(alias)
        without_init.__path__ = list(spec.submodule_search_locations)
        sys.modules[alias] = without_init
    return import_module(f"{alias}.{name}")
