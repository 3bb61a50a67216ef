from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.protocol.import_without_init import module_of

TAKEN = """
import sys
from ottla.protocol.import_without_init import module_of
reading = module_of("javaproperties", "reading")
assert "javaproperties" not in sys.modules
import javaproperties
assert javaproperties.loads("a = b") == reading.loads("a = b") == {"a": "b"}
assert javaproperties.Properties
"""


def test_module_is_imported_without_its_packages_init_and_the_package_stays_importable() -> None:
    subprocess.run([sys.executable, "-c", TAKEN], check=True)


def test_module_is_imported_once() -> None:
    assert module_of("crc32c", "_crc32c") is module_of("crc32c", "_crc32c")


def test_missing_package_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        module_of("no_such_package", "part")


def test_missing_module_of_a_package_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        module_of("crc32c", "no_such_module")
