from __future__ import annotations

import uuid
from collections.abc import Callable

from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID, ZERO_ID, id_text, is_usable, new_topic_id


def drawing(*draws: bytes) -> Callable[[int], bytes]:
    left = iter(draws)
    return lambda count: next(left)[:count]


def test_a_new_id_is_a_random_uuid_of_version_4() -> None:
    drawn = uuid.UUID(bytes=new_topic_id(drawing(bytes(range(16)))))
    assert drawn.version == 4
    assert drawn.variant == uuid.RFC_4122


def test_an_id_whose_text_starts_with_a_dash_is_generated_again() -> None:
    dashed = b"\xf8" + bytes(15)
    good = b"\x01" * 16
    assert id_text(dashed).startswith("-")
    assert new_topic_id(drawing(dashed, good)) == uuid.UUID(bytes=good, version=4).bytes


def test_reserved_ids_are_not_usable() -> None:
    assert not is_usable(ZERO_ID)
    assert not is_usable(METADATA_TOPIC_ID)
    assert not is_usable((99).to_bytes(16, "big"))


def test_the_metadata_topics_id_is_written_as_kafka_writes_it() -> None:
    assert id_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
