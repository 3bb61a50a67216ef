"""Compare Ottla with Apache Kafka by the share coordinator's APIs (keys 83-87): the state of share partitions, the epochs of that state,
and rejected requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, create, until
from client_compat.differential.scenarios.share_members import SHARE_KEY, coordinator_key, initialize
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.share_state import StateBatch
from ottla.protocol.schema import Message

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def begin(group: str, topic_id: bytes, partition: int = 0, *, epoch: int = 0, start: int = 0) -> k83.InitializeShareGroupStateRequest:
    return k83.InitializeShareGroupStateRequest(group, [k83.InitializeStateData(topic_id, [k83.PartitionData(partition, epoch, start)])])


def read(group: str, topic_id: bytes, partition: int = 0, *, leader_epoch: int = 0) -> k84.ReadShareGroupStateRequest:
    return k84.ReadShareGroupStateRequest(group, [k84.ReadStateData(topic_id, [k84.PartitionData(partition, leader_epoch)])])


def write(group: str, topic_id: bytes, *batches: StateBatch, partition: int = 0, **fields: int) -> k85.WriteShareGroupStateRequest:
    usual: dict[str, Any] = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0}
    part = k85.PartitionData(partition, **{**usual, **fields}, state_batches=list(batches))
    return k85.WriteShareGroupStateRequest(group, [k85.WriteStateData(topic_id, [part])])


def delete(group: str, topic_id: bytes, partition: int = 0) -> k86.DeleteShareGroupStateRequest:
    return k86.DeleteShareGroupStateRequest(group, [k86.DeleteStateData(topic_id, [k86.PartitionData(partition)])])


def summary(group: str, topic_id: bytes, partition: int = 0, *, leader_epoch: int = 0) -> k87.ReadShareGroupStateSummaryRequest:
    part = k87.PartitionData(partition, leader_epoch)
    return k87.ReadShareGroupStateSummaryRequest(group, [k87.ReadStateSummaryData(topic_id, [part])])


def each(group: str, topic_id: bytes, partition: int = 0) -> dict[str, Message]:
    """Return a request of each share coordinator API for one share partition, by the label under which its response is recorded."""
    return {
        "initialize": begin(group, topic_id, partition),
        "read": read(group, topic_id, partition),
        "write": write(group, topic_id, partition=partition),
        "summary": summary(group, topic_id, partition),
        "delete": delete(group, topic_id, partition),
    }


def look(probe: Probe, label: str, group: str, topic_id: bytes) -> None:
    """Read the share partition's state without changing its epochs, and record the responses."""
    probe.ask(f"{label}: state", read(group, topic_id, leader_epoch=-1))
    probe.each_version(f"{label}: summary", ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, lambda _: summary(group, topic_id))


def lives(probe: Probe) -> None:
    """Initialize, write, read and delete the state of a share partition, at each version."""
    topic_id = create(probe, "stated", 2)
    for version in probe.range(ApiKey.WRITE_SHARE_GROUP_STATE):
        group = f"life-{version}"
        initialize(probe, group, topic_id, [1])
        look(probe, "before", group, topic_id)
        probe.ask("write before", write(group, topic_id), version)
        probe.ask("delete before", delete(group, topic_id))
        probe.ask("initialize", begin(group, topic_id, start=-1))
        look(probe, "initialized", group, topic_id)
        for label, request in _WRITES.items():
            probe.ask(label, write(group, topic_id, *request["batches"], **request["fields"]), version)
            look(probe, label, group, topic_id)
        probe.ask("initialize again", begin(group, topic_id, start=3))
        look(probe, "initialized again", group, topic_id)
        probe.ask("delete", delete(group, topic_id))
        look(probe, "deleted", group, topic_id)


def _written(*batches: Sequence[int], **fields: int) -> dict[str, Any]:
    return {"batches": [StateBatch(*batch) for batch in batches], "fields": fields}


_WRITES = {
    "first": _written((0, 9, AVAILABLE, 1)),
    "a part": _written((3, 5, ACKNOWLEDGED, 1), delivery_complete_count=3),
    "overlapping": _written((4, 12, ARCHIVED, 2), delivery_complete_count=9),
    "an older count": _written((4, 4, AVAILABLE, 1)),
    "neighbours of one state": _written((13, 13, AVAILABLE, 1), (14, 20, AVAILABLE, 1)),
    "unordered": _written((30, 31, AVAILABLE, 2), (25, 29, ACKNOWLEDGED, 2)),
    "start moved": _written(start_offset=10),
    "start unchanged": _written((22, 23, AVAILABLE, 1), start_offset=-1),
    "start backwards": _written((2, 3, AVAILABLE, 1), start_offset=5),
    "start beyond all": _written(start_offset=50, delivery_complete_count=0),
    "a state that there is not": _written((60, 61, 9, 1), start_offset=50),
    "a range backwards": _written((71, 70, AVAILABLE, 1), start_offset=50),
    "a negative count": _written((80, 81, AVAILABLE, -1), start_offset=50),
}


def epochs(probe: Probe) -> None:
    """Send share coordinator requests with leader epochs and state epochs that are lower than, equal to, and higher than the stored
    ones."""
    topic_id = create(probe, "share-epochs")
    initialize(probe, "epochs", topic_id, [0])
    for label, request in {
        "leader epoch 5": read("epochs", topic_id, leader_epoch=5),
        "leader epoch 5 again": read("epochs", topic_id, leader_epoch=5),
        "leader epoch 4": read("epochs", topic_id, leader_epoch=4),
        "no leader epoch": read("epochs", topic_id, leader_epoch=-1),
        "write of leader epoch 4": write("epochs", topic_id, leader_epoch=4),
        "write of leader epoch 6": write("epochs", topic_id, leader_epoch=6),
        "leader epoch 5 after 6": read("epochs", topic_id, leader_epoch=5),
        "write without leader epoch": write("epochs", topic_id, leader_epoch=-1),
        "state epoch 3": begin("epochs", topic_id, epoch=3),
        "state epoch 3 again": begin("epochs", topic_id, epoch=3, start=7),
        "state epoch 2": begin("epochs", topic_id, epoch=2),
        "no state epoch": begin("epochs", topic_id, epoch=-1),
        "write of state epoch 2": write("epochs", topic_id, state_epoch=2, leader_epoch=9),
        "write of state epoch 3": write("epochs", topic_id, state_epoch=3, leader_epoch=9),
        "write of state epoch 4": write("epochs", topic_id, state_epoch=4, leader_epoch=9),
        "write without state epoch": write("epochs", topic_id, state_epoch=-1, leader_epoch=9),
    }.items():
        probe.ask(label, request)
        look(probe, label, "epochs", topic_id)


def refused(probe: Probe) -> None:
    """Send share coordinator requests that are rejected: with unknown groups, topics and partitions, with none of them, and with several
    share partitions at once."""
    topic_id = create(probe, "refused-state", 3)
    initialize(probe, "refused", topic_id, [0])
    for what, place in {
        "unknown topic": ("refused", UNKNOWN_ID, 0),
        "zero topic": ("refused", bytes(16), 0),
        "unknown partition": ("refused", topic_id, 9),
        "negative partition": ("refused", topic_id, -1),
        "no group": ("", topic_id, 0),
        "a group with a colon": ("a:b", topic_id, 0),
    }.items():
        for label, request in each(*place).items():
            probe.ask(f"{label}, {what}", request)
    for label, request in {
        "initialize nothing": k83.InitializeShareGroupStateRequest("refused"),
        "read nothing": k84.ReadShareGroupStateRequest("refused"),
        "write nothing": k85.WriteShareGroupStateRequest("refused"),
        "delete nothing": k86.DeleteShareGroupStateRequest("refused"),
        "summary of nothing": k87.ReadShareGroupStateSummaryRequest("refused"),
        "read no partition": k84.ReadShareGroupStateRequest("refused", [k84.ReadStateData(topic_id)]),
        "read one of several": k84.ReadShareGroupStateRequest(
            "refused",
            [
                k84.ReadStateData(topic_id, [k84.PartitionData(0), k84.PartitionData(1)]),
                k84.ReadStateData(UNKNOWN_ID, [k84.PartitionData(0)]),
            ],
        ),
        "a negative start": begin("refused", topic_id, 1, start=-2),
    }.items():
        probe.ask(label, request)
    probe.ask("the topic is deleted", DeleteTopicsRequest([DeleteTopicState("refused-state")], timeout_ms=5_000))
    for _ in until("the share coordinator knows that the topic was deleted"):
        (gone,) = probe.ask_unrecorded(summary("refused", topic_id), 1).results
        if gone.partitions[0].error_code:
            break
    for label, request in each("refused", topic_id).items():
        probe.ask(f"{label}, deleted topic", request)


def found(probe: Probe) -> None:
    """Send FindCoordinator for share partitions, with valid and malformed keys."""
    topic_id = create(probe, "found-state")
    initialize(probe, "found", topic_id, [0])
    good = coordinator_key("found", topic_id, 0)
    for version in probe.range(ApiKey.FIND_COORDINATOR):
        for key in (good, "found", "", "found:x:0", good + "x", good.rpartition(":")[0] + ":-1", "a:" + good, ":" + good, good + ":1"):
            shown = key.replace(good.split(":")[1], "<id>")
            probe.ask(f"share {shown!r}", FindCoordinatorRequest(key, SHARE_KEY, [key]), version)
            if probe.seen[-1].response and version >= 4:
                for one in probe.seen[-1].response["coordinators"]:
                    one["key"] = one["key"].replace(good.split(":")[1], "<id>")
