"""Short forms of ShareFetch and ShareAcknowledge, for members without an assignment, because a partition's leader does not check
assignments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.k78_share_fetch import ForgottenTopic, ShareFetchRequest, ShareFetchResponse
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.protocol.messages.k83_initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from ottla.protocol.messages.k83_initialize_share_group_state import PartitionData as InitializedPartition
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import Record, iter_records
from ottla.protocol.uuids import encode_uuid
from tests.support.topic_calls import describe

GROUP = 32
SHARE = 2
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Given = tuple[int, int, list[int]]
"""An acknowledgement of a range of records: (first offset, last offset, acknowledgement types)."""


def configure(client: Client, group_id: str, **settings: str) -> None:
    """Set group settings; dots are written as two underscores."""
    configs = [AlterableConfig(name.replace("__", "."), 0, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group_id, configs)])
    (answer,) = client.call(request).responses
    assert answer.error_code == 0, answer.error_message


def initialize(client: Client, topic: str = "t", *partitions: int, group_id: str = "g", start_offset: int = -1) -> None:
    """Initialize the partitions' share state at the share coordinator, as the group coordinator does when a member subscribes."""
    topic_id = describe(client, topic)[0].topic_id
    key = f"{group_id}:{encode_uuid(topic_id)}:0"
    (found,) = client.call(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), version=6).coordinators
    assert found.error_code == 0, found.error_message
    initialized = [InitializedPartition(index, 0, start_offset) for index in partitions or (0,)]
    response = client.call(InitializeShareGroupStateRequest(group_id, [InitializeStateData(topic_id, initialized)]))
    results = [partition.error_code for result in response.results for partition in result.partitions]
    assert not any(results), results


def dead_letters(client: Client, queue: str, partition: int = 0) -> list[Record]:
    """Return the records of a queue's partition, which the client's broker leads."""
    topic_id = describe(client, queue)[0].topic_id
    part = FetchPartition(partition, partition_max_bytes=1 << 20)
    records = bytes(client.call(FetchRequest(topics=[FetchTopic(queue, topic_id, [part])])).responses[0].partitions[0].records)
    return [record for at, header in split_batches(records) for record in iter_records(records[at : at + header.size_bytes])]


@dataclass
class ShareMember:
    """A member of share group "g" that fetches partitions of one topic in a share session."""

    client: Client
    member_id: str
    topic: str = "t"
    partitions: tuple[int, ...] = (0,)
    group_id: str | None = "g"
    version: int = 2
    epoch: int = 0
    topic_id: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.topic_id = describe(self.client, self.topic)[0].topic_id

    def request(self, given: list[Given] | None = None, *, max_wait_ms: int = 0, **changes: Any) -> ShareFetchRequest:
        """Return the session's next ShareFetch request, which acknowledges the records of partition 0 in `given`. The first request of a
        session names the partitions."""
        batches = [AcknowledgementBatch(*one) for one in given or ()]
        listed = [SharePartition(index) for index in self.partitions] if self.epoch == 0 else []
        if batches:
            listed = [SharePartition(0, batches)]
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": max_wait_ms,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "topics": [ShareTopic(self.topic_id, listed)] if listed else [],
        }
        return ShareFetchRequest(**(fields | changes))

    def fetch(self, given: list[Given] | None = None, **changes: Any) -> ShareFetchResponse:
        """Send a ShareFetch in the share session, and return its response."""
        response: ShareFetchResponse = self.client.call(self.request(given, **changes), version=self.version)
        if response.error_code == 0 and self.epoch >= 0:
            self.epoch += 1
        return response

    def begin(self, **changes: Any) -> None:
        """Send a ShareFetch that waits for records for up to a minute; `end` reads its response."""
        self.client.send(self.request(max_wait_ms=60_000, **changes), self.version)
        self.epoch += 1

    def end(self) -> ShareFetchResponse:
        """Read the response to the ShareFetch that `begin` sent, and return it."""
        response: ShareFetchResponse = decode_response(ApiKey.SHARE_FETCH, self.version, self.client.read_frame())[1]
        return response

    def forget(self, *partitions: int) -> ShareFetchResponse:
        return self.fetch(forgotten_topics_data=[ForgottenTopic(self.topic_id, list(partitions))])

    def acknowledge(self, *given: Given, partition: int = 0, **changes: Any) -> ShareAcknowledgeResponse:
        """Send a ShareAcknowledge for the partition in the share session, and return its response."""
        batches = [AcknowledgementBatch(*one) for one in given]
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": [ShareTopic(self.topic_id, [SharePartition(partition, batches)])] if given else [],
        }
        response: ShareAcknowledgeResponse = self.client.call(ShareAcknowledgeRequest(**(fields | changes)), version=self.version)
        if response.error_code == 0 and self.epoch >= 0:
            self.epoch += 1
        return response


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count) of each acquired range."""
    assert response.error_code == 0, response.error_code
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    assert all(partition.error_code == 0 for partition in partitions), partitions
    return [(one.first_offset, one.last_offset, one.delivery_count) for partition in partitions for one in partition.acquired_records]


def acknowledged(response: ShareAcknowledgeResponse) -> list[int]:
    """Return the error code of each partition in the response."""
    assert response.error_code == 0, response.error_code
    return [partition.error_code for topic in response.responses for partition in topic.partitions]
