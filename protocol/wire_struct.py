"""`@wire_struct`: what a message, or a struct of one, is made with: a dataclass with slots.

Every field has a default, as all that `ottla.protocol.fields` declare. Two are equal when their class and all their fields are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol import lazy_dataclasses

__all__ = ["wire_struct"]

if TYPE_CHECKING:
    from dataclasses import dataclass as wire_struct  # what it is to its users
else:
    wire_struct = lazy_dataclasses.dataclass(slots=True)
