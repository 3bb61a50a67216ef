"""`partition.metadata`: the topic id of a partition's directory (Kafka's PartitionMetadataFile). It has no final newline."""

from __future__ import annotations

import base64
import binascii
from typing import Final

FILE_NAME: Final = "partition.metadata"
NO_TOPIC_ID: Final = bytes(16)


def encode_uuid(raw: bytes) -> str:
    """Return a topic id (16 bytes) as 22 characters of base64url."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    """Parse a topic id of 22 base64url characters to 16 bytes. Raises `ValueError`."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as e:
        raise ValueError(f"{text!r} is not an id") from e
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id of 16 bytes")
    return raw


def encode_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_metadata(data: bytes) -> bytes:
    """Return the topic id in the contents of a partition.metadata file. Raises `ValueError`."""
    lines = [line.partition(": ") for line in data.decode().splitlines()]
    fields = {key: value for key, _, value in lines}
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("no version 0 with a topic_id")
    return decode_uuid(fields["topic_id"])
