"""Ottla without its fault engine: a copy of the source with the dispatcher's checks for scripted faults removed.

Rule: this peer is only compared with Ottla itself, to measure the cost of the fault engine without loaded rules. Nothing else in the copy
is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from client_compat.bench.peers import checkout
from client_compat.support.brokers import BrokerProcess

PACKAGES = ("ottla", "broker", "protocol")
DISPATCHER = Path("broker") / "api" / "dispatch.py"
QUESTION = "self._faults.active or "
"""The source text of the dispatcher's check for loaded fault rules, which `make` removes. It occurs twice: in the path of simple Produce
requests, and in the path of all other requests."""
_SOURCE = Path(__file__).parents[3]


def make(directory: Path) -> BrokerProcess:
    """Return a broker, not started, that runs a copy of Ottla's source without the dispatcher's checks for fault rules (scripted faults),
    with its data in `directory`. Raises RuntimeError if the dispatcher does not contain the expected checks."""
    copy = directory / "without-faults"
    for package in PACKAGES:
        shutil.copytree(_SOURCE / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    dispatcher = copy / DISPATCHER
    source = dispatcher.read_text()
    if source.count(QUESTION) != 2:
        raise RuntimeError(f"{DISPATCHER} does not ask for faults in the way that is known here")
    dispatcher.write_text(source.replace(QUESTION, ""))
    return checkout.make(copy, "without-faults", directory)
