"""A campaign's verdict as counts: how many observations were judged, how many of them were wrong in which way, and the first wrong ones as
text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from rich.console import Console
from rich.markup import escape

SAMPLES_MAX: Final = 10


@dataclass(slots=True)
class Counted:
    """Counts of a campaign's observations; each subclass has an integer field for each count. `JUDGED` names the field that must not be 0,
    because a campaign that judged nothing proves nothing. The fields in `WRONG` must all be 0, those in `NOTED` may have any value."""

    JUDGED: ClassVar[str]
    WRONG: ClassVar[tuple[str, ...]]
    NOTED: ClassVar[tuple[str, ...]] = ()
    samples: list[str] = field(default_factory=list, kw_only=True)
    """Texts about the first wrong observations."""

    @property
    def good(self) -> bool:
        """Whether the campaign judged something (`JUDGED` is not 0) and found nothing wrong."""
        return getattr(self, self.JUDGED) > 0 and not self.wrong_except()

    def wrong_except(self, *shown: str) -> int:
        """Return the sum of all counts of wrong observations, except those of the fields named in `shown`, which the caller prints
        separately."""
        return sum(getattr(self, name) for name in self.WRONG if name not in shown)

    def note(self, text: str) -> None:
        """Add an observation as text to the samples, unless there are SAMPLES_MAX already."""
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(text)

    def add(self, other: Self) -> None:
        """Add the counts of another verdict of the same kind, and its samples."""
        for name in (self.JUDGED, *self.WRONG, *self.NOTED):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for sample in other.samples:
            self.note(sample)

    def show(self, console: Console, subject: str) -> None:
        """Print one line with `subject` (what was observed) and every count, and then the samples."""
        counts = (self._count(self.JUDGED), *map(self._count, self.NOTED), *map(self._count, self.WRONG))
        console.print(f"{subject}: {', '.join(counts)}", style="" if self.good else "red", markup=False)
        for sample in self.samples:
            console.print(f"[red]{escape(sample)}[/]")

    def _count(self, name: str) -> str:
        return f"{getattr(self, name):,} {name.replace('_', ' ')}"
