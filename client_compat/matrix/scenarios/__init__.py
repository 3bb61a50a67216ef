"""All scenarios by area. Importing the modules registers them."""

from __future__ import annotations

import importlib

from client_compat.matrix.scenario import REGISTRY

AREAS = (
    "produce",
    "lost_acks",
    "records",
    "codecs",
    "partitioning",
    "consume",
    "topics",
    "groups",
    "consumer_groups",
    "transactions",
    "admin",
    "restarts",
    "security",
    "rights",
)
"""The areas in report order. A new area needs a module in this package and an entry here."""

for _area in AREAS:
    importlib.import_module(f"{__name__}.{_area}")

__all__ = ["AREAS", "REGISTRY"]
