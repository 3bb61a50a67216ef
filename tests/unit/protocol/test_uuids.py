from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from ottla.protocol.uuids import decode_uuid, encode_uuid, is_usable, random_uuid


def drawing(*draws: bytes) -> Callable[[int], bytes]:
    left = iter(draws)
    return lambda count: next(left)[:count]


def test_the_text_of_a_uuid_has_22_characters_and_round_trips() -> None:
    raw = bytes(range(240, 256))
    assert len(encode_uuid(raw)) == 22
    assert decode_uuid(encode_uuid(raw)) == raw


@pytest.mark.parametrize("text", ["", "short", "!" * 22, "A" * 24])
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        decode_uuid(text)


def test_a_generated_uuid_is_random_and_of_version_4() -> None:
    drawn = uuid.UUID(bytes=random_uuid(drawing(bytes(range(16)))))
    assert drawn.version == 4
    assert drawn.variant == uuid.RFC_4122


def test_a_uuid_whose_text_starts_with_a_dash_is_usable_again() -> None:
    dashed = b"\xf8" + bytes(15)
    good = b"\x01" * 16
    assert encode_uuid(dashed).startswith("-")
    assert random_uuid(drawing(dashed, good)) == uuid.UUID(bytes=good, version=4).bytes


@pytest.mark.parametrize("number", [0, 1, 99])
def test_reserved_uuids_are_not_usable(number: int) -> None:
    assert not is_usable(number.to_bytes(16, "big"))
