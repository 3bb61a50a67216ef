"""Measurement of rates, and the time until a rate is within its limit again.

Rules (results equal Kafka's to the last bit of a double):
* A rate is the sum of the samples of the last windows divided by the time that they cover. That time is at least `number` - 1 windows, so
  that a short burst counts as spread over them.
* A sample is kept as long as part of it lies in the last windows, and then reset.
* A token bucket fills at a constant rate up to the amount that all windows allow. A single use may make it negative.

Times are in milliseconds of one clock, values in any unit; rates are per second.

Source: KAFKA Rate, SampledStat, WindowedSum, TokenBucket, QuotaUtils.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isnan
from typing import Final, NamedTuple

_SECOND_MS: Final = 1000.0
INT32_MAX: Final = 2**31 - 1


class Windows(NamedTuple):
    """The period over which a rate is measured: the last `number` windows of `ms` milliseconds each."""

    number: int = 11
    ms: int = 1000


@dataclass(slots=True)
class _Sample:
    begin_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.begin_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """A rate per second, measured over the last windows (`Windows`)."""

    __slots__ = ("_current", "_samples", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Record a value; a negative value takes back an earlier one."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        sample = samples[self._current]
        if now_ms - sample.begin_ms >= self.windows.ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the recorded values' rate per second at `now_ms`."""
        covered_ms = self.covered_ms(now_ms)
        total = 0.0
        for sample in self._samples:
            total += sample.value  # sum() rounds differently from Python 3.12 on
        return total / (covered_ms / _SECOND_MS)

    def covered_ms(self, now_ms: int) -> int:
        """Return the time that the samples cover, in milliseconds: at least all but one of the windows. Resets expired samples."""
        number, window_ms = self.windows
        for sample in self._samples:
            if now_ms - sample.last_ms >= number * window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min((sample.begin_ms for sample in self._samples), default=now_ms)
        missing = number - 1 - elapsed_ms // window_ms
        return max(elapsed_ms + max(missing, 0) * window_ms, 1)

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """Return the milliseconds until the rate falls to `bound` if nothing more is recorded; 0 if it is not above `bound`."""
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        return rounded((rate - bound) / bound * self.covered_ms(now_ms)) if bound else INT32_MAX

    def _advance(self, now_ms: int) -> _Sample:
        """Make the oldest sample the current one. There is one sample more than windows, because the oldest lies only partly in them."""
        self._current = (self._current + 1) % (self.windows.number + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms, now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]


class TokenBucket:
    """A token bucket (KIP-599), which limits the rate of partition creations and deletions. It starts full."""

    __slots__ = ("_tokens", "_updated_ms", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take `count` tokens, even if that makes the bucket negative. The bucket fills at `rate` tokens per second."""
        self._tokens = min(self._burst(rate), self.left(rate, now_ms) - count)

    def left(self, rate: float, now_ms: int) -> float:
        """Return the number of tokens in the bucket, which fills at `rate` tokens per second; negative if more were taken than
        available.
        """
        burst = self._burst(rate)
        if self._updated_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * ((now_ms - self._updated_ms) / _SECOND_MS))
        self._updated_ms = now_ms
        return self._tokens

    def wait_ms(self, rate: float, now_ms: int) -> int:
        """Return the milliseconds until the bucket, which fills at `rate` tokens per second, is not negative; 0 if it is not
        negative now.
        """
        left = self.left(rate, now_ms)
        return rounded(-left / rate * _SECOND_MS) if left < 0 else 0

    def _burst(self, rate: float) -> float:
        return self.windows.number * (self.windows.ms / _SECOND_MS) * rate


def rounded(number: float) -> int:
    """Round to the nearest integer as Java's Math.round: NaN, which a quota may be, becomes 0. The result is at most INT32_MAX, the
    maximum of a response's throttle time.
    """
    if isnan(number):
        return 0
    return INT32_MAX if number >= INT32_MAX else floor(number + 0.5)
