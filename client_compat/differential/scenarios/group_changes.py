"""Compare Ottla with Apache Kafka by changes of groups over time: protocol conversion with members, delayed assignments, late commits, and
the log records that the groups write.

Rule: a group for which the assignment interval matters sets it to zero or to the maximum, so that no response depends on the broker's
speed.
"""

from __future__ import annotations

import re
from typing import Any

from client_compat.differential.probe import NotOffered, Probe, Seen
from client_compat.differential.scenarios.common import until
from client_compat.differential.scenarios.consumer_groups import (
    LEAVE,
    LEAVE_STATIC,
    beat,
    described,
    joining_beat,
    new_topic,
    owning,
    settled,
)
from client_compat.differential.scenarios.fetch import part
from client_compat.differential.scenarios.fetch import request as fetch_request
from client_compat.differential.scenarios.groups import commit_request, join, join_request, word
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k01_fetch import FetchRequest
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records

OFFSETS_TOPIC = "__consumer_offsets"
GROUP, SET = 32, 0
INTERVAL = "consumer.assignment.interval.ms"
LONGEST_MS = "15000"
NO_USER_DATA = b"\xff\xff\xff\xff"
EPOCH_KEY = b"\x00\x03"
HASH = slice(-8, None)
"""The last eight bytes of a group epoch record: a hash of the topic ids, which differ between the brokers."""

TIMES = re.compile(rb"\x00\x00\x01[\x90-\xff].{4}", re.DOTALL)
"""Matches 8 bytes that are a timestamp of the present time, in ms."""


def pause(probe: Probe, group: str, value_ms: str) -> None:
    """Set the minimum interval between two assignments of a group. Releases before 4.3 lack the setting and assign without an interval: for
    them, raises NotOffered unless `value_ms` is 0.
    """
    change = AlterableConfig(INTERVAL, SET, value_ms)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group, [change])])
    for _ in until(f"{group} has a pause"):
        (answer,) = probe.ask_unrecorded(request, 1).responses
        is_unknown = probe.older and f"Unknown group config name: {INTERVAL}" in str(answer.error_message)
        if is_unknown and value_ms != "0":
            raise NotOffered(INTERVAL)
        if is_unknown or not answer.error_code:
            return


def assigned(topic: str, *partitions: int, user_data: bytes = NO_USER_DATA) -> bytes:
    """Return the encoded assignment of these partitions of a topic (ConsumerProtocolAssignment, version 1)."""
    listed = b"".join(index.to_bytes(4, "big") for index in partitions)
    name = topic.encode()
    return b"\x00\x01\x00\x00\x00\x01" + len(name).to_bytes(2, "big") + name + len(partitions).to_bytes(4, "big") + listed + user_data


def subscribed(topic: str) -> list[JoinGroupRequestProtocol]:
    """Return the protocols field of a JoinGroup request: the assignor `range` with an encoded subscription to `topic`
    (ConsumerProtocolSubscription, version 1) without owned partitions."""
    name = topic.encode()
    data = b"\x00\x01\x00\x00\x00\x01" + len(name).to_bytes(2, "big") + name + NO_USER_DATA + bytes(4)
    return [JoinGroupRequestProtocol("range", data)]


def stable(probe: Probe, group: str, topic: str, handed: bytes) -> Any:
    """Create a classic group with one member, whose encoded assignment is `handed`; return the response to the member's JoinGroup
    request."""
    member = join(probe, group, 9, protocols=subscribed(topic))
    share = [SyncGroupRequestAssignment(member.member_id, handed)]
    probe.ask("sync", SyncGroupRequest(group, member.generation_id, member.member_id, None, "consumer", "range", share), 5)
    return member


def upgrades(probe: Probe) -> None:
    """Let a member with the consumer protocol join classic groups that have members."""
    new_topic(probe, "cg-up", 2)
    for label, handed in {
        "no user data": assigned("cg-up", 0, 1),
        "empty user data": assigned("cg-up", 0, user_data=bytes(4)),
        "user data": assigned("cg-up", 0, user_data=b"\x00\x00\x00\x01x"),
        "no assignment": b"all",
    }.items():
        group = f"cg-up-{label.replace(' ', '-')}"
        member = stable(probe, group, "cg-up", handed)
        probe.ask(f"{label}: joined", joining_beat(group, "new", "cg-up"), 1)
        described(probe, f"{label}: described", group)
        probe.ask(f"{label}: the old one", HeartbeatRequest(group, member.generation_id, member.member_id), 4)
        probe.ask(f"{label}: its commit", commit_request(group, 1, member.generation_id, member.member_id, topic="cg-up"), 8)
        probe.ask(f"{label}: going on", beat(group, "new", 1), 1)
        probe.ask(f"{label}: gone", beat(group, "new", LEAVE), 1)
    member = join(probe, "cg-up-connect", 9, protocol_type="connect")
    probe.ask("another type", joining_beat("cg-up-connect", "new", "cg-up"), 1)


def classic_members(probe: Probe) -> None:
    """Let a member with the classic protocol join a consumer group."""
    topic_id = new_topic(probe, "cg-mixed", 2)
    group = "cg-mixed"
    pause(probe, group, "0")
    probe.ask_unrecorded(joining_beat(group, "new", "cg-mixed"), 1)
    settled(probe, group, topic_id)
    joined = probe.ask_unrecorded(join_request(group, protocols=subscribed("cg-mixed")), 3)
    probe.names.learn(joined.member_id, "old")
    described(probe, "both", group)
    for label, protocol in {"said": ("consumer", "range"), "no type": (None, "range"), "no name": ("consumer", None)}.items():
        probe.ask(f"sync, {label}", SyncGroupRequest(group, joined.generation_id, joined.member_id, None, *protocol), 5)
    for label, wrong in {
        "another type": SyncGroupRequest(group, joined.generation_id, joined.member_id, None, "connect", "range"),
        "another name": SyncGroupRequest(group, joined.generation_id, joined.member_id, None, "consumer", "other"),
        "another generation": SyncGroupRequest(group, 99, joined.member_id, None, "consumer", "range"),
        "of the new one": SyncGroupRequest(group, joined.generation_id, "new", None, "consumer", "range"),
    }.items():
        probe.ask(f"sync, {label}", wrong, 5)
    for label, request in {
        "another protocol": join_request(group, joined.member_id, protocols=[JoinGroupRequestProtocol("other", b"")]),
        "another type": join_request(group, joined.member_id, protocol_type="connect"),
        "a stranger with an instance": join_request(group, "nobody", protocols=subscribed("cg-mixed"), group_instance_id="me"),
    }.items():
        probe.ask(f"refused: {label}", request, 9)
    probe.ask("its heartbeat", HeartbeatRequest(group, joined.generation_id, joined.member_id), 4)
    probe.ask("heartbeat as the new one", HeartbeatRequest(group, joined.generation_id, "new"), 4)
    probe.ask("it leaves", LeaveGroupRequest(group, "", [MemberIdentity(joined.member_id)]), 4)
    described(probe, "one again", group)


def waiting(probe: Probe) -> None:
    """Let members join, change their subscription and leave during the assignment interval."""
    topic_id = new_topic(probe, "cg-wait", 2)
    new_topic(probe, "cg-wait-2", 2)
    group = "cg-wait"
    pause(probe, group, LONGEST_MS)
    probe.ask_unrecorded(joining_beat(group, "a", "cg-wait"), 1)
    epoch = settled(probe, group, topic_id)["a"]
    probe.ask("another joins", joining_beat(group, "b", "cg-wait"), 1)
    described(probe, "nothing for it", group)
    probe.ask("one without topics", joining_beat(group, "c"), 1)
    probe.ask("the first goes on", beat(group, "a", epoch), 1)
    probe.ask("it gives its topic up", beat(group, "a", epoch, subscribed_topic_names=["cg-wait-2"]), 1)
    described(probe, "given up", group)
    probe.ask("it has let go", beat(group, "a", epoch, topic_partitions=[]), 1)
    described(probe, "let go", group)
    probe.ask("it wants both", beat(group, "a", epoch, subscribed_topic_names=["cg-wait", "cg-wait-2"]), 1)
    probe.ask("it leaves", beat(group, "a", LEAVE), 1)
    described(probe, "left", group)
    pause(probe, group, "0")
    probe.ask_unrecorded(beat(group, "b", epoch), 1)
    settled(probe, group, topic_id)
    described(probe, "assigned", group)


def joining_again(probe: Probe) -> None:
    """Let members join again after they were fenced or lost the response to their join."""
    topic_id = new_topic(probe, "cg-again", 4)
    group = "cg-again"
    pause(probe, group, "0")
    probe.ask_unrecorded(joining_beat(group, "a", "cg-again"), 1)
    epoch = settled(probe, group, topic_id)["a"]
    probe.ask("not heard", joining_beat(group, "a", "cg-again"), 1)
    probe.ask("fenced", beat(group, "a", epoch + 9), 1)
    probe.ask("joins again", joining_beat(group, "a", "cg-again"), 1)
    probe.ask("with other topics", joining_beat(group, "a", "cg-nowhere"), 1)
    described(probe, "of nothing", group)
    probe.ask("a static one", joining_beat(group, "s", "cg-again", instance_id="me"), 1)
    probe.ask("a static one, not heard", joining_beat(group, "s", "cg-again", instance_id="me"), 1)
    probe.ask("it goes for a while", beat(group, "s", LEAVE_STATIC, instance_id="me"), 1)
    probe.ask("it is back under its id", joining_beat(group, "s", "cg-again", instance_id="me"), 1)


def late_commits(probe: Probe) -> None:
    """Commit offsets with a member's previous epoch, for partitions that the member kept and for those that it lost (KIP-1251)."""
    topic_id = new_topic(probe, "cg-late", 4)
    group = "cg-late"
    pause(probe, group, "0")
    probe.ask_unrecorded(joining_beat(group, "a", "cg-late"), 1)
    before = settled(probe, group, topic_id)["a"]
    probe.ask_unrecorded(joining_beat(group, "b", "cg-late"), 1)
    probe.ask_unrecorded(beat(group, "a", before), 1)
    for index in range(4):
        probe.ask(f"while it gives back: {index}", commit_request(group, 1, before, "a", topic="cg-late", partition=index), 9)
    after = settled(probe, group, topic_id)["a"]
    described(probe, "shared", group)
    for member in ("a", "b"):
        for epoch in (before - 1, before, after, after + 1):
            for index in range(4):
                commit = commit_request(group, 2, epoch, member, topic="cg-late", partition=index)
                probe.ask(f"{member} in epoch {epoch}: {index}", commit, 9)
    long = commit_request(group, 2, before, "b", topic="cg-late", metadata="m" * 5_000)
    probe.ask("too long, of what it has not", long, 9)
    probe.ask("by an old version", commit_request(group, 2, before, "a", topic="cg-late"), 8)


def log_of(probe: Probe, group: str) -> list[str]:
    """Return a group's records in log order, with placeholders for values that each broker chooses."""
    metadata_request = MetadataRequest([MetadataRequestTopic(name=OFFSETS_TOPIC)], False)
    (topic,) = probe.ask_unrecorded(metadata_request, 12).topics
    found = []
    for place in topic.partitions:
        request: FetchRequest = fetch_request(OFFSETS_TOPIC, bytes(topic.topic_id), part(place.partition_index))
        (answer,) = probe.ask_unrecorded(request, 13).responses[0].partitions
        data = bytes(answer.records or b"")
        for pos, header in split_batches(data):
            for record in iter_records(data[pos : pos + header.size_bytes]):
                key, value = bytes(record.key or b""), None if record.value is None else bytes(record.value)
                if len(group).to_bytes(2, "big") + group.encode() in key:
                    found.append(f"{probe_words(probe, key)!r}: {None if value is None else probe_words(probe, masked(key, value))!r}")
    return found


def masked(key: bytes, value: bytes) -> bytes:
    if key.startswith(EPOCH_KEY):
        value = value[: HASH.start] + b"<hash>"
    return TIMES.sub(b"<time>", value)


def probe_words(probe: Probe, data: bytes) -> bytes:
    for name, known in probe.names.words():
        raw = name if isinstance(name, bytes) else name.encode() if isinstance(name, str) else b""
        if raw:
            data = data.replace(raw, known.encode())
    return data


def records(probe: Probe) -> None:
    """Compare the records that a classic group, a consumer group and conversions between them write."""
    topic_id = new_topic(probe, "logged", 2)

    def note(label: str, group: str) -> None:
        probe.seen.append(Seen(label, ApiKey.FETCH.name, 13, log_of(probe, group)))

    word(probe, probe.ask("asked for its id", join_request("log-first"), 9), "asked")
    note("a group that somebody was given an id for", "log-first")
    probe.ask("no protocols", join_request("log-refused", protocols=[]), 9)
    note("a group whose first join was refused", "log-refused")
    member = stable(probe, "log-classic", "logged", assigned("logged", 0, 1))
    note("a classic group", "log-classic")
    probe.ask("it leaves", LeaveGroupRequest("log-classic", "", [MemberIdentity(member.member_id)]), 4)
    note("a classic group, empty", "log-classic")
    pause(probe, "log-new", "0")
    probe.ask_unrecorded(joining_beat("log-new", "a", "logged"), 1)
    epoch = settled(probe, "log-new", topic_id)["a"]
    note("a consumer group", "log-new")
    probe.ask("it goes on", beat("log-new", "a", epoch, topic_partitions=owning(topic_id, 0, 1)), 1)
    probe.ask("a commit", commit_request("log-new", 3, epoch, "a", topic="logged"), 9)
    probe.ask("it leaves", beat("log-new", "a", LEAVE), 1)
    note("a consumer group, empty", "log-new")
    (found,) = probe.ask_unrecorded(ConsumerGroupDescribeRequest(["log-new"]), 1).groups
    probe.seen.append(Seen("its state", ApiKey.CONSUMER_GROUP_DESCRIBE.name, 1, found.group_state))
