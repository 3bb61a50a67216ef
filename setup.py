"""Builds the compiled form of the walkers where Cython and a C compiler are there; everything else is in pyproject.toml.

They run interpreted from the same source without it, so no failure here may fail an installation.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WALKERS = ("walk", "batch_walk")
DIRECTORY = "ottla/protocol/records"


class BuildOrGoOn(build_ext):
    """An extension that cannot be built is one clear line, not an error; setuptools then leaves it out of the wheel."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as e:  # noqa: BLE001 - compilers and Cython fail in many ways, and none of them matters to the installation
            print(f"ottla: the walkers stay interpreted (slower, same results): {e}", file=sys.stderr)

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as e:  # noqa: BLE001 - as above
            print(f"ottla: the walkers stay interpreted (slower, same results): {e}", file=sys.stderr)
            ext.optional = True


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize  # noqa: PLC0415 - Cython is optional
    except ImportError:
        print("ottla: the walkers stay interpreted (slower, same results): Cython is not installed", file=sys.stderr)
        return []
    walkers = [
        Extension(
            f"ottla.protocol.records.{name}",
            [f"{DIRECTORY}/{name}.py"],
            depends=[f"{DIRECTORY}/{name}.pxd"],
            extra_compile_args=["-g0"] if os.name == "posix" else [],
            optional=True,
        )
        for name in WALKERS
    ]
    return cythonize(walkers, build_dir="build/cython", quiet=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOrGoOn})
