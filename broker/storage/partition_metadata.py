"""`partition.metadata`, the file with the topic id in a partition's directory (Kafka's PartitionMetadataFile). The file has no final
newline.
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.uuids import decode_uuid, encode_uuid

FILE_NAME: Final = "partition.metadata"
NO_TOPIC_ID: Final = bytes(16)


def encode_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_metadata(data: bytes) -> bytes:
    """Return the topic id in the contents of a partition.metadata file. Raises `ValueError` if the file has another format."""
    lines = [line.partition(": ") for line in data.decode().splitlines()]
    fields = {key: value for key, _, value in lines}
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("no version 0 with a topic_id")
    return decode_uuid(fields["topic_id"])
