"""`@wire_struct` declares a message or a nested struct: a dataclass with slots.

Every field's declaration (`ottla.protocol.fields`) gives its default. Two objects are equal if class and all fields are equal.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["wire_struct"]

if TYPE_CHECKING:
    from dataclasses import dataclass as wire_struct  # for type checkers
else:
    wire_struct = dataclasses.dataclass(slots=True)
