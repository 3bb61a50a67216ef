"""All scenarios, by area: importing the modules registers them."""

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
"""In the order of the report. A new area is a module here and a word in this line."""

for _area in AREAS:
    importlib.import_module(f"{__name__}.{_area}")

__all__ = ["AREAS", "REGISTRY"]
