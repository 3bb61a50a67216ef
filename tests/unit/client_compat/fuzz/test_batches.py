from __future__ import annotations

import random

import pytest

from client_compat.fuzz.batches import BOMB_MIB, DAMAGES, bomb, damaged_batch, good_batch, with_crc
from client_compat.fuzz.frames import spoil
from client_compat.fuzz.messages import MessageMaker
from ottla.protocol.codec import decode_request, encode_request
from ottla.protocol.messages.registry import declared_keys, request_class
from ottla.protocol.records.batch import crc_ok, read_header
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.errors import BatchTooLarge
from ottla.protocol.records.record import iter_records

MESSAGE_MAX_BYTES = 1_048_588


def test_the_undamaged_batch_is_valid() -> None:
    rng = random.Random(1)
    for _ in range(50):
        batch = good_batch(rng)
        assert crc_ok(batch, read_header(batch))
        assert len(list(iter_records(batch))) == read_header(batch).record_count


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_changes_the_batch(damage: object) -> None:
    rng = random.Random(2)
    changed = 0
    for _ in range(20):
        batch = bytearray(good_batch(rng))
        before = bytes(batch)
        damage(batch, rng)  # type: ignore[operator]  # a function of the table
        changed += bytes(batch) != before
    assert changed > 10


def test_most_damaged_batches_have_a_matching_crc() -> None:
    rng = random.Random(3)
    batches = [batch for _ in range(200) if len(batch := damaged_batch(rng)) > 61]
    whole = [batch for batch in batches if read_header(batch).size_bytes == len(batch)]
    assert sum(crc_ok(batch, read_header(batch)) for batch in whole) > len(whole) / 2


@pytest.mark.parametrize("codec", BOMB_MIB)
def test_decompression_bomb_passes_the_size_limit_and_the_crc_and_is_too_large(codec: Codec) -> None:
    packed = bomb(codec)
    assert len(packed) < MESSAGE_MAX_BYTES
    assert crc_ok(packed, read_header(packed))
    with pytest.raises(BatchTooLarge):
        list(iter_records(packed, 2 * len(packed)))


def test_recomputed_crc_matches() -> None:
    batch = bytearray(good_batch(random.Random(4)))
    batch[-1] ^= 1
    assert not crc_ok(batch, read_header(batch))
    with_crc(batch)
    assert crc_ok(batch, read_header(batch))


def test_every_generated_request_can_be_encoded_and_decoded() -> None:
    maker = MessageMaker(random.Random(5))
    for key in declared_keys():
        message = request_class(key)
        for version in range(message.MIN_VERSION, message.MAX_VERSION + 1):
            frame = b"".join(encode_request(key, version, 7, "fuzz", maker.make(message, version)))
            assert decode_request(frame[4:]).header.correlation_id == 7


def test_same_seed_damages_bytes_equally() -> None:
    assert spoil(random.Random(6), b"x" * 50) == spoil(random.Random(6), b"x" * 50)
