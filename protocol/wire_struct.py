"""`@wire_struct`: what a message, or a struct of one, is made with: a dataclass with slots.

Every field has a default, as all that `ottla.protocol.fields` declare. Two are equal when their class and all their fields are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["wire_struct"]

if TYPE_CHECKING:
    from dataclasses import dataclass as wire_struct  # what it is to its users
else:
    wire_struct = dataclasses.dataclass(slots=True)
