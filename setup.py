"""Builds the compiled form of the record walker where Cython and a C compiler are there; everything else is in pyproject.toml.

The walker runs interpreted from the same source without it, so no failure here may fail an installation.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WALKER = "protocol/records/walk.py"
TYPES = "protocol/records/walk.pxd"


class BuildOrGoOn(build_ext):
    """An extension that cannot be built is one clear line, not an error; setuptools then leaves it out of the wheel."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as e:  # noqa: BLE001 - compilers and Cython fail in many ways, and none of them matters to the installation
            print(f"ottla: {WALKER} stays interpreted (slower, same results): {e}", file=sys.stderr)

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as e:  # noqa: BLE001 - as above
            print(f"ottla: {WALKER} stays interpreted (slower, same results): {e}", file=sys.stderr)
            ext.optional = True


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize  # noqa: PLC0415 - Cython is optional
    except ImportError:
        print(f"ottla: {WALKER} stays interpreted (slower, same results): Cython is not installed", file=sys.stderr)
        return []
    walker = Extension(
        "protocol.records.walk", [WALKER], depends=[TYPES], extra_compile_args=["-g0"] if os.name == "posix" else [], optional=True
    )
    return cythonize([walker], build_dir="build/cython", quiet=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOrGoOn})
