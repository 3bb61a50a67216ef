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


def test_a_module_is_imported_without_the_packages_init_and_the_package_can_still_be_imported() -> None:
    subprocess.run([sys.executable, "-c", TAKEN], check=True)


def test_a_module_is_imported_once() -> None:
    assert module_of("crc32c", "_crc32c") is module_of("crc32c", "_crc32c")


def test_an_import_error_names_a_package_that_is_not_installed() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        module_of("no_such_package", "part")


def test_a_module_that_the_package_lacks_raises_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        module_of("crc32c", "no_such_module")
