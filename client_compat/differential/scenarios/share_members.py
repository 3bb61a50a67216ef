"""Helpers of the scenarios about share groups: members that send ShareFetch and ShareAcknowledge, and the settings and state that the
members' groups need.

Rules:
- A group's settings are changed before its topic is created, because a broker that leads the topic has then also applied the settings.
- A share partition is loaded before the first recorded fetch, because Apache Kafka reads its state in the background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create, until
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k78_share_fetch import ForgottenTopic, ShareFetchRequest
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.k83_initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic
from ottla.protocol.uuids import encode_uuid

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
OPEN, CLOSE = 0, -1
"""The epochs that open and close a share session."""
GROUP_RESOURCE = 32
SHARE_KEY = 2
LATEST_VERSION = 2
SLOW: dict[str, Any] = {"max_wait_ms": 1_000, "min_bytes": 1}
"""Fields of a ShareFetch request that waits up to one second for a record. Apache Kafka may find released records only at the end of the
wait."""
Given = tuple[int, int, list[int]]
"""An acknowledgement of a range of records: (first offset, last offset, acknowledgement types)."""


def configure(probe: Probe, group: str, settings: Mapping[str, str]) -> bool:
    """Change settings of a group. Return whether the broker accepted the change, which older releases do not."""
    configs = [AlterableConfig(name, 0, value) for name, value in settings.items()]
    answer = probe.ask(f"configure {group}", IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)]))
    return answer is not None and answer.responses[0].error_code == ErrorCode.NONE


def coordinator_key(group: str, topic_id: bytes, partition: int) -> str:
    """Return the key of a share partition for FindCoordinator: `group:topic id:partition`."""
    return f"{group}:{encode_uuid(topic_id)}:{partition}"


def initialize(
    probe: Probe, group: str, topic_id: bytes, partitions: Sequence[int], start_offset: int = 0, *, coordinator: Probe | None = None
) -> None:
    """Initialize the state of share partitions at their coordinator (by default the probe's own broker), as soon as there is one. Responses
    are not recorded."""
    key = coordinator_key(group, topic_id, partitions[0])
    topics = [InitializeStateData(topic_id, [PartitionData(index, 0, start_offset) for index in partitions])]
    for _ in until(f"the state of {group} is initialized"):
        (found,) = probe.ask_unrecorded(FindCoordinatorRequest(key_type=SHARE_KEY, coordinator_keys=[key]), 6).coordinators
        if found.error_code:
            continue
        (topic,) = (coordinator or probe).ask_unrecorded(InitializeShareGroupStateRequest(group, topics), 0).results
        if not any(partition.error_code for partition in topic.partitions):
            return


def share_topic(probe: Probe, group: str, name: str, partitions: int = 1, *, settings: Mapping[str, str] | None = None) -> bytes:
    """Create a topic whose share partitions are loaded and start at offset 0. Return its id."""
    if settings:
        configure(probe, group, settings)
    topic_id = create(probe, name, partitions)
    initialize(probe, group, topic_id, range(partitions))
    load(probe, group, topic_id, range(partitions))
    return topic_id


def load(probe: Probe, group: str, topic_id: bytes, partitions: Sequence[int]) -> None:
    """Wait until the broker has loaded the state of these share partitions, which must be empty. This sends ShareFetch requests, whose
    responses are not recorded."""
    listed = [ShareTopic(topic_id, [SharePartition(index) for index in partitions])]
    for _ in until(f"the share partitions of {group} are loaded"):
        answer = probe.ask_unrecorded(
            ShareFetchRequest(group, "loader", OPEN, 5_000, 0, max_records=1, batch_size=1, topics=listed), LATEST_VERSION
        )
        errors = [part.error_code for topic in answer.responses for part in topic.partitions]
        probe.ask_unrecorded(ShareFetchRequest(group, "loader", CLOSE), LATEST_VERSION)
        if not answer.error_code and not any(errors):
            return


@dataclass
class ShareMember:
    """A member of a share group with a share session for one topic. `epoch` is the session epoch of the next request; it advances with each
    successful response."""

    probe: Probe
    group: str
    name: str
    topic_id: bytes
    partitions: Sequence[int] = (0,)
    version: int = LATEST_VERSION
    epoch: int = OPEN

    def topics(self, *given: Given, partition: int = 0) -> list[ShareTopic]:
        """Return the topics field of the session's next request. It has the acknowledgements `given` for `partition`. Without any, it has
        the partitions to add if the session is new, and otherwise nothing."""
        if given:
            return [ShareTopic(self.topic_id, [SharePartition(partition, [AcknowledgementBatch(*one) for one in given])])]
        return [ShareTopic(self.topic_id, [SharePartition(index) for index in self.partitions])] if self.epoch == OPEN else []

    def fetch(self, label: str, *given: Given, partition: int = 0, on: str = "main", **fields: Any) -> Any:
        """Send the share session's next ShareFetch, which also acknowledges the records in `given`; record and return the response.
        `fields` replace fields of the request."""
        request = self.request(*given, partition=partition, **fields)
        return self._count_request(
            request.share_session_epoch, self.probe.ask(f"{self.name}: {label}", request, self.version, on=on, sort=False)
        )

    def request(self, *given: Given, partition: int = 0, **fields: Any) -> ShareFetchRequest:
        """Return the ShareFetch request that `fetch` sends."""
        usual: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_records": 500,
            "batch_size": 500,
            "topics": self.topics(*given, partition=partition),
        }
        return ShareFetchRequest(**(usual | fields))

    def acknowledge(self, label: str, *given: Given, partition: int = 0, **fields: Any) -> Any:
        """Send the share session's next ShareAcknowledge with the acknowledgements `given`; record and return the response."""
        usual: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": self.topics(*given, partition=partition) if given else [],
        }
        request = ShareAcknowledgeRequest(**(usual | fields))
        return self._count_request(request.share_session_epoch, self.probe.ask(f"{self.name}: {label}", request, self.version, sort=False))

    def forget(self, label: str, *partitions: int) -> Any:
        return self.fetch(label, forgotten_topics_data=[ForgottenTopic(self.topic_id, list(partitions))])

    def close(self, label: str = "closes its session") -> None:
        """End the session: the broker releases the records that the member has acquired."""
        self.fetch(label, share_session_epoch=CLOSE)

    def _count_request(self, epoch: int, response: Any) -> Any:
        if response is not None and response.error_code == ErrorCode.NONE:
            self.epoch = OPEN if epoch == CLOSE else epoch + 1
        return response
