"""The groups view: members, assignments, positions and lag; also the deliveries of a share group and the tasks of a streams group.

A broker shows only the groups that it coordinates. Lag is the high watermark minus the committed offset; it is known only for partitions
with a replica on this broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from ottla.broker.admin.console.share_groups import SharePartitionView, position, share_partitions, share_tps
from ottla.broker.admin.console.topics import partition_of
from ottla.broker.app import Broker
from ottla.broker.groups.classic import ClassicGroup
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import ConsumerMember
from ottla.broker.groups.coordinator import Group, GroupCoordinator
from ottla.broker.groups.embedded_protocol import assigned_partitions
from ottla.broker.groups.modern import ModernGroup
from ottla.broker.groups.offsets import ByPartition
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.tasks import Tasks, sorted_tasks
from ottla.broker.streams.topology import inputs_of

GROUPS_MAX: Final = 300
MEMBERS_MAX: Final = 300
OFFSETS_MAX: Final = 1000
ASSIGNED_MAX: Final = 50
_AT_ONCE: Final = 50
"""The number of groups that are read before the event loop can run other callbacks."""

TopicPartition = tuple[str, int]


class GroupRow(BaseModel):
    """One group in the console's list of groups."""

    group_id: str
    kind: str = Field(
        description="`classic`, `consumer` (KIP-848), `share` (KIP-932), `streams` (KIP-1071), or `offsets`: no member ever joined,"
        " a client commits under this name"
    )
    state: str
    members: int
    partitions: int = Field(description="partitions with a committed offset; of a share group, those that it may read")
    lag: int = Field(description="total over the partitions whose lag is known here")
    lag_unknown: int = Field(description="partitions without a replica here; of a share group also those that no member has read yet")


class GroupRows(BaseModel):
    """Groups in order of name; `left_out` is the number of groups that do not fit in the response."""

    groups: list[GroupRow]
    left_out: int


class TasksView(BaseModel):
    """The tasks of a streams group's member, as texts such as `1_0` (subtopology and partition), by kind: active, standby and warm-up.
    There are at most ASSIGNED_MAX of each kind."""

    active: list[str]
    standby: list[str]
    warmup: list[str]


class MemberView(BaseModel):
    """One member of a group of any type. A task of a streams group is written as its subtopology's id and its partition, such as `1_0`."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = Field(description="the member epoch; None for a member of the classic protocol")
    assigned: list[str] = Field(
        description=f"the first {ASSIGNED_MAX} assigned partitions; of a streams member, those that active tasks read"
    )
    assigned_count: int
    tasks: TasksView | None = None


class OffsetView(BaseModel):
    """A group's position in one partition; `committed` is the next offset to read, None if no offset is committed."""

    topic: str
    partition: int
    committed: int | None
    committed_at: int | None
    start: int | None
    end: int | None = Field(description="the high watermark; None if the partition has no replica here")
    lag: int | None
    member_id: str | None


class GroupView(GroupRow):
    """One group with its members and offsets. The fields that end in `left_out` count the rows that do not fit in the response. For a share
    group, `shared` has the positions, and `offsets` is empty."""

    protocol: str | None
    generation: int = Field(description="the generation; of other groups than classic ones, the group epoch")
    problem: str | None = Field(description="why a streams group is not ready")
    member_rows: list[MemberView]
    offsets: list[OffsetView]
    offsets_left_out: int
    shared: list[SharePartitionView]
    shared_left_out: int


def groups_router(broker: Broker) -> APIRouter:
    """Return the HTTP routes of the console's groups view of one broker."""
    router = APIRouter()

    @router.get("/groups")
    async def groups(contains: Annotated[str, Query(max_length=249)] = "") -> GroupRows:
        """The groups that this broker coordinates and whose names contain the text `contains`, in order of name, as far as they fit in the
        response."""
        rows: list[GroupRow] = []
        names = [(name, machine) for machine in broker.services.groups.machines() for name in _names(machine) if contains in name]
        names.sort(key=lambda each: each[0])
        for number, (name, machine) in enumerate(names[:GROUPS_MAX], 1):
            rows.append(_row(broker, name, machine))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return GroupRows(groups=rows, left_out=max(0, len(names) - GROUPS_MAX))

    @router.get("/group")
    async def group(name: str) -> GroupView:
        """One group; 404 if this broker does not coordinate a group of that name."""
        machine = next((each for each in broker.services.groups.machines() if name in _names(each)), None)
        if machine is None:
            raise HTTPException(404, f"this broker coordinates no group {name!r}")
        return await _shown(broker, name, machine)

    return router


def _names(machine: GroupCoordinator) -> set[str]:
    return {*machine.groups, *machine.offsets.committed.groups()}


def _row(broker: Broker, name: str, machine: GroupCoordinator) -> GroupRow:
    group = machine.groups.get(name)
    lags = _share_lags(broker, group) if isinstance(group, ShareGroup) else _committed_lags(broker, name, machine)
    return GroupRow(
        group_id=name,
        kind="offsets" if group is None or getattr(group, "is_simple", False) else _kind(group),
        state="Empty" if group is None else str(group.state),
        members=0 if group is None else len(group.members),
        partitions=len(lags),
        lag=sum(lag for lag in lags if lag is not None),
        lag_unknown=lags.count(None),
    )


def _share_lags(broker: Broker, group: ShareGroup) -> list[int | None]:
    found = [position(broker, topic, key) for topic, key in share_tps(group)]
    return [None if at is None else at.lag for at in found]


def _committed_lags(broker: Broker, name: str, machine: GroupCoordinator) -> list[int | None]:
    return [
        None if (here := partition_of(broker, topic, index)) is None else max(0, here.log.high_watermark - committed.value.offset)
        for topic, indexes in machine.offsets.committed.of_group(name).items()
        for index, committed in indexes.items()
    ]


def _kind(group: Group) -> str:
    return group.PROTOCOL_TYPE if isinstance(group, ModernGroup) else "classic"


async def _shown(broker: Broker, name: str, machine: GroupCoordinator) -> GroupView:
    group = machine.groups.get(name)
    row = _row(broker, name, machine)
    members = [] if group is None else list(_of_modern(broker, group) if isinstance(group, ModernGroup) else _of_classic(group))
    owners = {tp: member.member_id for member, at in members for tp in at}
    offsets = machine.offsets.committed.of_group(name)
    read = (
        []
        if isinstance(group, ShareGroup)
        else sorted({*owners, *((topic, index) for topic, indexes in offsets.items() for index in indexes)})
    )
    shared, shared_left_out = await share_partitions(broker, group) if isinstance(group, ShareGroup) else ([], 0)
    return GroupView(
        **row.model_dump(),
        protocol=None if group is None or isinstance(group, ModernGroup) else group.protocol_name,
        generation=0 if group is None else group.epoch if isinstance(group, ModernGroup) else group.generation,
        problem=_problem(group),
        member_rows=[member for member, _ in members[:MEMBERS_MAX]],
        offsets=[_offset(broker, tp, offsets, owners.get(tp)) for tp in read[:OFFSETS_MAX]],
        offsets_left_out=max(0, len(read) - OFFSETS_MAX),
        shared=shared,
        shared_left_out=shared_left_out,
    )


def _problem(group: Group | None) -> str | None:
    configured = group.configured if isinstance(group, StreamsGroup) else None
    return None if configured is None or configured.problem is None else configured.problem[1]


def _of_classic(group: ClassicGroup) -> Iterator[tuple[MemberView, list[TopicPartition]]]:
    for each in group.members:
        tps = sorted(assigned_partitions(each.assignment)) if group.uses_consumer_protocol else []
        yield _member(each.member_id, each.instance_id, each.client_id, each.client_host, tps), tps


def _of_modern(broker: Broker, group: ConsumerGroup | ShareGroup | StreamsGroup) -> Iterator[tuple[MemberView, list[TopicPartition]]]:
    known = broker.services.topics.image.topics
    members: Iterable[ConsumerMember | ShareMember | StreamsMember] = group.members.values()
    for each in members:
        if isinstance(each, StreamsMember):
            assigned = _inputs(broker, group, each)
        else:
            assigned = [(known[key].name, index) for key, indexes in each.assigned.items() if key in known for index in indexes]
        instance_id = each.instance_id if isinstance(each, ConsumerMember) else None
        member = _member(each.member_id, instance_id, each.client_id, each.client_host, sorted(assigned))
        member.epoch = each.epoch
        member.tasks = TasksView(**_tasks(each)) if isinstance(each, StreamsMember) else None
        yield member, assigned


def _tasks(member: StreamsMember) -> dict[str, list[str]]:
    return {kind: _listed(tasks) for kind, tasks in zip(("active", "standby", "warmup"), member.assigned.kinds(), strict=True)}


def _listed(tasks: Tasks) -> list[str]:
    named = (f"{subtopology_id}_{index}" for subtopology_id, indexes in sorted_tasks(tasks) for index in indexes)
    return list(islice(named, ASSIGNED_MAX))


def _inputs(broker: Broker, group: ModernGroup[Any, Any], member: StreamsMember) -> list[TopicPartition]:
    """Return the partitions that the active tasks of a streams group's member read."""
    assert isinstance(group, StreamsGroup), "a streams member is in a streams group"
    subtopologies = {} if group.topology is None else group.topology.subtopologies
    return [
        (name, index)
        for subtopology_id, indexes in member.assigned.active.items()
        if subtopology_id in subtopologies
        for name in inputs_of(subtopologies[subtopology_id])
        if (topic := broker.services.cluster.by_name(name)) is not None
        for index in indexes
        if index < topic.partitions
    ]


def _member(member_id: str, instance_id: str | None, client_id: str, host: str, tps: list[TopicPartition]) -> MemberView:
    return MemberView(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        host=host,
        epoch=None,
        assigned=[f"{topic}-{index}" for topic, index in tps[:ASSIGNED_MAX]],
        assigned_count=len(tps),
    )


def _offset(broker: Broker, tp: TopicPartition, offsets: ByPartition, member_id: str | None) -> OffsetView:
    topic, index = tp
    found, here = offsets.get(topic, {}).get(index), partition_of(broker, topic, index)
    committed = None if found is None else found.value.offset
    end = None if here is None else here.log.high_watermark
    return OffsetView(
        topic=topic,
        partition=index,
        committed=committed,
        committed_at=None if found is None else found.value.commit_timestamp,
        start=None if here is None else here.log.log_start_offset,
        end=end,
        lag=None if end is None or committed is None else max(0, end - committed),
        member_id=member_id,
    )
