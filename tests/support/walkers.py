"""The walkers (the decoders of records and of batch headers) in both forms: as installed (compiled if possible), and the interpreted
source."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from types import ModuleType

from ottla.protocol.records import batch_walk, walk


def load_interpreted(name: str) -> ModuleType:
    """Load the Python source of the walker module `walk` or `batch_walk`, whether or not a compiled form exists."""
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", Path(walk.__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiler() -> str | None:
    """Return the C compiler that an installation would use, or None."""
    return shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) or shutil.which("cc")


def is_compiled(module: ModuleType) -> bool:
    return not str(module.__file__).endswith(".py")


INTERPRETED = load_interpreted("walk")
WALKERS = {"installed": walk, "interpreted": INTERPRETED}
INTERPRETED_BATCHES = load_interpreted("batch_walk")
BATCH_WALKERS = {"installed": batch_walk, "interpreted": INTERPRETED_BATCHES}
