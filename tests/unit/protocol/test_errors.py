from __future__ import annotations

import pytest

from ottla.protocol.errors import EncodeError, FrameTooLarge, MalformedHeader, MalformedMessage, ProtocolError, UnsupportedVersion


@pytest.mark.parametrize("kind", [MalformedMessage, MalformedHeader, FrameTooLarge, UnsupportedVersion])
def test_whatever_is_wrong_with_a_peers_bytes_is_one_kind_of_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ProtocolError)


def test_a_mistake_in_our_own_message_does_not_count_as_the_peers() -> None:
    assert not issubclass(EncodeError, ProtocolError)


def test_a_malformed_message_says_which_message_field_and_offset() -> None:
    error = MalformedMessage("ProduceRequest v9", "topic_data[].name", 17, "the bytes end here")
    assert str(error) == "ProduceRequest v9: topic_data[].name at offset 17: the bytes end here"
