"""`meta.properties`: the cluster and the node that a data directory belongs to (Kafka's MetaProperties, version 1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ottla.protocol.import_without_init import module_of
from ottla.protocol.uuids import decode_uuid, encode_uuid

FILE_NAME: Final = "meta.properties"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: bytes


def encode_meta(meta: MetaProperties, now_ms: int) -> bytes:
    """Return the bytes of a meta.properties file as Java's Properties writes them: an empty comment, the date, then the keys."""
    fields = {
        "node.id": str(meta.node_id),
        "directory.id": encode_uuid(meta.directory_id),
        "version": "1",
        "cluster.id": meta.cluster_id,
    }
    written = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    text: str = module_of("javaproperties", "writing").dumps(fields, comments="", timestamp=written)
    return text.encode("latin-1")


def decode_meta(data: bytes) -> MetaProperties:
    """Parse a meta.properties file. Raises `ValueError` that names the missing or invalid key. A file without directory.id (Kafka before
    3.7) is valid; the directory id is then all zeros."""
    fields: dict[str, str] = module_of("javaproperties", "reading").loads(data.decode("latin-1"))
    if fields.get("version") != "1":
        raise ValueError(f"version {fields.get('version')}; only 1 is understood")
    for key in ("cluster.id", "node.id"):
        if key not in fields:
            raise ValueError(f"no {key}")
    directory_id = decode_uuid(fields["directory.id"]) if "directory.id" in fields else bytes(16)
    return MetaProperties(fields["cluster.id"], int(fields["node.id"]), directory_id)
