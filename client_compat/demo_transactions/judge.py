"""Compares the pipeline's output with the counts made directly from the flights, and checks how often each input record was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from client_compat.demo_transactions.counting import Counts, Increment


@dataclass(slots=True)
class Judgement:
    """The comparison of the pipeline's output with the correct counts. Numbers of flights: `flights` (all), `summed` (the sum of the
    output), `never`, `once` and `more_than_once` (by how often they were counted). `increments`: number of output records. `counts`: number
    of (carrier, hour) pairs; `wrong`: number of pairs with a wrong sum. `torn`: number of input ranges that were counted in part."""

    flights: int
    increments: int = 0
    summed: int = 0
    counts: int = 0
    wrong: int = 0
    never: int = 0
    once: int = 0
    more_than_once: int = 0
    torn: int = 0

    @property
    def surplus(self) -> int:
        return self.summed - self.flights

    @property
    def exact(self) -> bool:
        return self.flights > 0 and self.once == self.flights and not (self.wrong or self.torn or self.surplus)


def judge(output: Iterable[Increment], direct: Counts, inputs: Sequence[int]) -> Judgement:
    """Compare the pipeline's output with the input, and return the result. `direct`: the correct counts. `inputs`: the number of records in
    each input partition."""
    found = Judgement(sum(inputs), counts=len(direct))
    summed: Counts = Counter()
    ranges: Counter[tuple[int, int, int]] = Counter()
    for increment in output:
        found.increments += 1
        summed[increment.carrier, increment.hour] += increment.n
        ranges[increment.partition, increment.first, increment.end] += increment.n
    found.summed = summed.total()
    found.wrong = sum(1 for key in direct.keys() | summed.keys() if direct[key] != summed[key])
    times = _times_counted(ranges, inputs, found)
    found.never, found.once = times[0], times[1]
    found.more_than_once = times.total() - times[0] - times[1]
    return found


def _times_counted(ranges: Counter[tuple[int, int, int]], inputs: Sequence[int], found: Judgement) -> Counter[int]:
    """Return how many input records were counted 0 times, once, twice and so on (times: records). `ranges`: the counted flights of each
    range (partition, first offset, end). A range whose count is no multiple of its length is torn; it is only counted in `found.torn`."""
    edges = [[0] * (size + 1) for size in inputs]
    for (partition, first, end), n in ranges.items():
        size = end - first
        copies, rest = divmod(n, size) if size > 0 else (0, n)
        if rest or not (partition < len(inputs) and 0 <= first < end <= inputs[partition]):
            found.torn += 1
        else:
            edges[partition][first] += copies
            edges[partition][end] -= copies
    times: Counter[int] = Counter()
    for steps in edges:
        times.update(accumulate(steps[:-1]))
    return times
