from __future__ import annotations

from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.protocol.uuids import encode_uuid


def test_the_metadata_topics_id_is_written_as_kafka_writes_it() -> None:
    assert encode_uuid(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
