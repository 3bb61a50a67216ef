"""Ways to corrupt a frame: bits, lengths, sizes, order."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

HOSTILE_SIZES = (-(2**31), -1, 0, 1, 3, 2**31 - 1, 101 * 1024 * 1024)
HOSTILE_WORDS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff", b"\xff\xff\xff\xff\x0f", b"\x00\x00\x00\x00")
NOISE_MAX = 500


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def spoil(rng: random.Random, body: bytes) -> bytes:
    """Damage `body` (a request's header and message, without the size) in one or two ways, and return it as a frame with a size prefix."""
    for _ in range(rng.randint(1, 2)):
        body = rng.choice(DAMAGES)(rng, body)
    if rng.random() < 0.1:
        return struct.pack(">i", rng.choice(HOSTILE_SIZES)) + body
    return framed(body)


def _flip_bits(rng: random.Random, body: bytes) -> bytes:
    spoiled = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        if spoiled:
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def _hostile_word(rng: random.Random, body: bytes) -> bytes:
    """Return `body` with an extreme count or length written into it, mostly at a position that holds a count, a length, or a string's
    start."""
    at, word = rng.randrange(len(body) + 1), rng.choice(HOSTILE_WORDS)
    return body[:at] + word + body[at + len(word) :]


def _cut(rng: random.Random, body: bytes) -> bytes:
    return body[: rng.randrange(len(body) + 1)]


def _trailing(rng: random.Random, body: bytes) -> bytes:
    return body + rng.randbytes(rng.randint(1, 20))


def _insert(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body) + 1)
    return body[:at] + rng.randbytes(rng.randint(1, 8)) + body[at:]


def _other_api(rng: random.Random, body: bytes) -> bytes:
    return struct.pack(">hh", rng.randint(-2, 100), rng.randint(-2, 20)) + body[4:]


def _noise(rng: random.Random, body: bytes) -> bytes:
    return rng.randbytes(rng.randint(0, NOISE_MAX))


DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (_flip_bits, _hostile_word, _cut, _trailing, _insert, _other_api, _noise)
