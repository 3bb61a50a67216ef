from __future__ import annotations

import pytest

from ottla.protocol.errors import EncodeError, FrameTooLarge, MalformedHeader, MalformedMessage, ProtocolError, UnsupportedVersion


@pytest.mark.parametrize("kind", [MalformedMessage, MalformedHeader, FrameTooLarge, UnsupportedVersion])
def test_every_error_about_a_peers_bytes_is_a_protocol_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ProtocolError)


def test_encode_error_is_no_protocol_error() -> None:
    assert not issubclass(EncodeError, ProtocolError)


def test_malformed_message_error_names_message_field_and_offset() -> None:
    error = MalformedMessage("ProduceRequest v9", "topic_data[].name", 17, "the bytes end here")
    assert str(error) == "ProduceRequest v9: topic_data[].name at offset 17: the bytes end here"
