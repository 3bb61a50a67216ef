"""This broker without its fault engine: its own source, copied, with the dispatcher's questions for scripted faults cut out.

Rule: it is for one comparison only, what the engine costs while no rule is loaded; nothing else of the copy is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from client_compat.bench.peers import checkout
from client_compat.support.brokers import BrokerProcess

PACKAGES = ("ottla", "broker", "protocol")
DISPATCHER = Path("broker") / "api" / "dispatch.py"
QUESTION = "self._faults.active or "
"""Asked twice: before a Produce of the lane, and before every other request."""
_SOURCE = Path(__file__).parents[3]


def make(directory: Path) -> BrokerProcess:
    """The broker over `directory`. Raises RuntimeError when the dispatcher no longer has the questions that are to be cut out."""
    copy = directory / "without-faults"
    for package in PACKAGES:
        shutil.copytree(_SOURCE / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    dispatcher = copy / DISPATCHER
    source = dispatcher.read_text()
    if source.count(QUESTION) != 2:
        raise RuntimeError(f"{DISPATCHER} does not ask for faults in the way that is known here")
    dispatcher.write_text(source.replace(QUESTION, ""))
    return checkout.make(copy, "without-faults", directory)
