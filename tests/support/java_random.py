"""Java's random numbers, to compare random choices with Kafka's."""

from __future__ import annotations

_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


class JavaRandom:
    """`java.util.Random`: a linear congruential generator of 48 bits."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def below(self, bound: int) -> int:
        """Return `nextInt(bound)`: a number from 0 to `bound` - 1."""
        if bound & (bound - 1) == 0:
            return bound * self._next_31_bits() >> 31
        while True:
            bits = self._next_31_bits()
            if bits - bits % bound + bound - 1 < 1 << 31:
                return bits % bound

    def _next_31_bits(self) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        return self._state >> 17
