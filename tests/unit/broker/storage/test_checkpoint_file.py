from __future__ import annotations

import pytest

from ottla.broker.storage.checkpoint_file import CorruptCheckpoint, decode_offsets, encode_offsets


def test_offsets_are_read_back() -> None:
    offsets = {("a", 0): 0, ("a", 1): 2**62, ("b.c_d-e", 12): 5}
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"0\n", "1 lines"),
        (b"1\n0\n", "version"),
        (b"0\nx\n", "line 2"),
        (b"0\n2\na 0 1\n", "the count is 2, but there are 1 entries"),
        (b"0\n1\na 0\n", "line 3: 2 words"),
        (b"0\n1\na b 0 1\n", "line 3: 4 words"),
        (b"0\n1\na x 1\n", "line 3: 'x'"),
        (b"0\n1\na 0 1.5\n", "line 3: '1.5'"),
        (b"0\n1\na 0 3", "line 3 is truncated"),
        (b"\xff\xff", "not text"),
        (bytes(40), "1 lines"),
    ],
)
def test_damage_is_reported_with_its_line(data: bytes, says: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=says):
        decode_offsets(data)


def test_a_truncated_checkpoint_is_invalid() -> None:
    whole = encode_offsets({("a", 0): 7, ("a", 1): 30})
    for end in range(1, len(whole)):
        with pytest.raises(CorruptCheckpoint):
            decode_offsets(whole[:end])
