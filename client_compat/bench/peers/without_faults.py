"""This broker without its fault engine: its own source, copied, with the dispatcher's one question for scripted faults cut out.

Rule: it is for one comparison only, what the engine costs while no rule is loaded; nothing else of the copy is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from client_compat.bench.peers import checkout
from client_compat.support.brokers import BrokerProcess

PACKAGES = ("ottla", "broker", "protocol")
DISPATCHER = Path("broker") / "api" / "dispatch.py"
QUESTION = "self._intercepted(context, request, route) if self._faults.active else "
_SOURCE = Path(__file__).parents[3]


def make(directory: Path) -> BrokerProcess:
    """The broker over `directory`. Raises RuntimeError when the dispatcher no longer has the question that is to be cut out."""
    copy = directory / "without-faults"
    for package in PACKAGES:
        shutil.copytree(_SOURCE / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    dispatcher = copy / DISPATCHER
    source = dispatcher.read_text()
    if source.count(QUESTION) != 1:
        raise RuntimeError(f"{DISPATCHER} does not ask for faults in the way that is known here")
    dispatcher.write_text(source.replace(QUESTION, ""))
    return checkout.make(copy, "without-faults", directory)
