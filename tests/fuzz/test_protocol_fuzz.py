"""Arbitrary bytes decode to a message or raise ProtocolError, never another exception, and the memory used is proportional to the input's
size.

OTTLA_FUZZ_EXAMPLES sets the number of inputs of each test, OTTLA_FUZZ_SEED their seed.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_request, decode_response, encode_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import RequestHeader, request_header
from ottla.protocol.messages.registry import declared_keys, request_class, response_class
from ottla.protocol.schema import Message, decode, encode
from tests.support.message_strategies import messages

EXAMPLES = int(os.environ.get("OTTLA_FUZZ_EXAMPLES", "12"))
SEED = int(os.environ.get("OTTLA_FUZZ_SEED", "20260102"))

BYTES_PER_BYTE = 100
"""An empty array of one byte becomes a list of 72, its struct of three bytes another 56: nothing in the schemas costs more per byte."""
BYTES_FIXED = 32_000
"""The message, an exception with its texts, and what the interpreter caches on the way."""

CLASSES = [find(key) for key in declared_keys() for find in (request_class, response_class)]
SIZE_BYTES = 4
FUZZED = settings(max_examples=EXAMPLES, database=None, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
HOSTILE = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\x7f",
    b"\x7f\xff",
    b"\0",
]


@pytest.fixture(autouse=True, scope="module")
def _characters() -> None:
    """Let Hypothesis make its Unicode table, once for a checkout, before allocations are traced, which would slow it down to a minute."""
    st.text().validate()


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read(cls: type[Message], version: int, data: bytes) -> Message | None:
    """Decode the bytes, and assert a limit on the allocated memory; return None if they are rejected with ProtocolError."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        return decode(cls, data, version)
    except ProtocolError:
        return None
    finally:
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= BYTES_FIXED + BYTES_PER_BYTE * len(data), f"{peak} bytes for {len(data)}"


def mutate(data: bytes, random: Random) -> bytes:
    """Return the bytes with one to three random changes: a flipped bit, a malicious length, a cut, a repeated or removed part, an appended
    tail."""
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out) + 1)
        to = min(len(out), at + random.randint(0, 9))
        match random.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << random.randrange(8)
            case 1:
                hostile = random.choice(HOSTILE)
                out[at : at + len(hostile)] = hostile
            case 2:
                del out[at:]
            case 3:
                out[at:at] = out[at:to] * random.randint(1, 50)
            case 4:
                del out[at:to]
            case _:
                out += random.randbytes(random.randint(1, 20))
    return bytes(out)


def versions(cls: type[Message]) -> st.SearchStrategy[int]:
    return st.integers(cls.MIN_VERSION, cls.MAX_VERSION)


@cache
def compile_all(cls: type[Message]) -> None:
    """Compile the readers and writers of every version, so that no measured call includes their compilation."""
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        decode(cls, encode(cls(), version), version)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@seed(SEED)
@FUZZED
@given(data=st.data())
def test_mutated_bytes_of_a_message_are_a_message_or_refused(cls: type[Message], data: st.DataObject) -> None:
    print(f"seed {SEED}")
    compile_all(cls)
    version = data.draw(versions(cls))
    valid = encode(data.draw(messages(cls, version)), version)
    random = Random(data.draw(st.integers(0, 2**64 - 1)))
    for _ in range(10):
        accepted = read(cls, version, mutate(valid, random))
        if accepted is not None:
            assert decode(cls, encode(accepted, version), version) == accepted


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_random_bytes_are_a_message_or_refused(cls: type[Message]) -> None:
    print(f"seed {SEED}")
    compile_all(cls)
    random = Random(SEED)
    for _ in range(EXAMPLES):
        for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
            read(cls, version, random.randbytes(random.choice((0, 1, 5, 30, 300))))
            read(cls, version, bytes([random.choice((0, 1, 2, 255))]) * random.choice((1, 10, 1000)))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_truncation_of_a_message_is_refused(cls: type[Message]) -> None:
    compile_all(cls)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        whole = encode(cls(), version)
        for size in range(len(whole)):
            assert read(cls, version, whole[:size]) is None


@seed(SEED)
@FUZZED
@given(tail=st.binary(max_size=200), key=st.sampled_from(declared_keys()), version=st.integers(-1, 20), client_id=st.text(max_size=9))
def test_a_frame_with_a_true_header_is_a_request_or_refused(tail: bytes, key: ApiKey, version: int, client_id: str) -> None:
    header, message = RequestHeader(key, version, 7, client_id), request_class(key)
    frame = request_header(header, flexible=False) + tail
    with suppress(ProtocolError):
        assert type(decode_request(frame).body) is message
        assert message.MIN_VERSION <= version <= message.MAX_VERSION
    if message.MIN_VERSION <= version <= message.MAX_VERSION:
        whole = b"".join(encode_request(key, version, 7, client_id, message()))[SIZE_BYTES:]
        request = decode_request(whole + tail)  # what is behind it is not looked at
        assert (request.header, request.body) == (header, message())
    response_type = response_class(key)
    with suppress(ProtocolError):
        correlation_id, response = decode_response(key, response_type.MAX_VERSION, frame)
        assert correlation_id == int.from_bytes(frame[:4], signed=True)
        assert type(response) is response_type


@seed(SEED)
@FUZZED
@given(st.binary(max_size=400))
def test_an_arbitrary_frame_is_a_request_or_refused(frame: bytes) -> None:
    with suppress(ProtocolError):
        found = decode_request(frame)
        known = request_class(found.header.api_key)
        assert type(found.body) is known
        assert known.MIN_VERSION <= found.header.api_version <= known.MAX_VERSION
