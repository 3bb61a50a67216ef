"""Differences that are meant: each has its row in docs/deviations.md, and is expected in the answers that its pattern names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from client_compat.differential.normalise import Plain
from client_compat.differential.probe import Seen


@dataclass(frozen=True, slots=True)
class Known:
    """A meant difference: patterns of the API's name, of the answer's label and of the field's path. `why` is the row's first column."""

    why: str
    api: str
    path: str
    label: str = ".*"

    def explains(self, scenario: str, seen: Seen, path: str, kafka: Plain, ours: Plain) -> bool:
        pairs = ((self.api, seen.api), (self.label, seen.label), (self.path, path))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


KNOWN: tuple[Known, ...] = ()
