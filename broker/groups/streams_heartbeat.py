"""StreamsGroupHeartbeat: the single request with which a member joins, stays in and leaves a streams group.

Invariants:

* A member joins with epoch 0, stays with a positive epoch, and leaves with -1. A static member that will return leaves with -2. A field
  that is absent has not changed.
* Patterns of topic names are rejected, as in Kafka. Like Kafka before 4.4, a broker that imitates such a release also rejects static
  members, warm-up tasks and task offsets. From 4.4 on, task offsets are kept in memory, described, and used by the assignor, but no
  warm-up task is ever assigned.
* The endpoints' epoch counts changes of members' tasks and endpoints. Until 4.3 it also counted each join.
* A member with the epoch before its current one is accepted if it owns only tasks assigned to it: the response with the new epoch was lost.
  Any other wrong epoch fences the member, which must rejoin without tasks.
* A request that lists the member's tasks is answered with its assignment, as in consumer groups. Kafka's client lists them after a lost
  response. Kafka 4.3 answers only with changes: the client then never processes the tasks that the lost response assigned, and may
  continue to process tasks that the lost response revoked, while another member processes them, too.
* While internal topics of the topology are missing, every heartbeat of the group asks the broker to create them (`topics_to_create`).

Source: Kafka's GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid, GroupMetadataManager.streamsGroupHeartbeat,
streamsGroupLeave, streamsGroupFenceMember (4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_heartbeat import ID_BYTES_MAX
from ottla.broker.groups.consumer_member import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.streams_group import OffsetReport
from ottla.broker.groups.streams_group_update import StreamsGroupUpdate
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.endpoints import input_partitions
from ottla.broker.streams.internal_topics import InternalTopic, Status
from ottla.broker.streams.tasks import TaskSet, tasks_from
from ottla.broker.streams.topology import topology_value
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import EndpointToPartitions, StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group import Endpoint, TaskIds, TaskOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeatResult:
    """The response to a StreamsGroupHeartbeat: the member's id and epoch. `tasks` and `endpoints` are None if they have not changed since
    the last response; `topics_to_create` are the missing internal topics."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    status: list[tuple[int, str]] = field(default_factory=list)
    tasks: TaskSet | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointToPartitions] | None = None
    topics_to_create: Mapping[str, InternalTopic] = field(default_factory=dict)


def check(beat: StreamsGroupHeartbeatRequest, *, has_4_4_features: bool = False) -> None:
    """Raise Rejected if a field of the heartbeat is invalid by itself, whatever the group's state: INVALID_REQUEST, or
    STREAMS_INVALID_TOPOLOGY. With `has_4_4_features` the rules of Kafka 4.4 apply, otherwise those of 4.3."""
    _reject(None if has_4_4_features else _unsupported_before_4_4(beat))
    if beat.topology is not None and any(subtopology.source_topic_regex for subtopology in beat.topology.subtopologies):
        _reject("Regular expressions for source topics are not supported yet.")
    _reject(_invalid_ids(beat))
    _reject(_invalid_epoch(beat))
    if beat.member_epoch == JOIN_EPOCH:
        _check_changelogs(beat)
    given = [tasks is not None for tasks in (beat.active_tasks, beat.standby_tasks, beat.warmup_tasks)]
    if any(given) and not all(given):
        _reject("If one task-type is non-null, all must be non-null.")
    if beat.member_epoch != JOIN_EPOCH and beat.topology is not None:
        _reject("Topology can only be provided when (re-)joining.")


def _reject(fault: str | None) -> None:
    if fault is not None:
        raise Rejected(ErrorCode.INVALID_REQUEST, fault)


def _unsupported_before_4_4(beat: StreamsGroupHeartbeatRequest) -> str | None:
    if beat.instance_id is not None:
        return "Static membership is not yet supported."
    if beat.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if beat.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if beat.warmup_tasks:
        return "WarmupTasks are not supported yet."
    return None


def _invalid_ids(beat: StreamsGroupHeartbeatRequest) -> str | None:
    given = (("MemberId", beat.member_id), ("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id))
    for name, value in given:
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    for name, value in (("GroupId", beat.group_id), ("MemberId", beat.member_id)):
        if len(value.encode()) > ID_BYTES_MAX:
            return f"{name} is longer than {ID_BYTES_MAX} bytes."
    return None


def _invalid_epoch(beat: StreamsGroupHeartbeatRequest) -> str | None:
    if beat.member_epoch < LEAVE_STATIC_EPOCH:
        return f"MemberEpoch is {beat.member_epoch}, but must be greater than or equal to -2."
    if beat.member_epoch == LEAVE_STATIC_EPOCH and beat.instance_id is None:
        return "InstanceId can't be null."
    if beat.member_epoch != JOIN_EPOCH:
        return None
    if beat.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    for name, tasks in (("ActiveTasks", beat.active_tasks), ("StandbyTasks", beat.standby_tasks), ("WarmupTasks", beat.warmup_tasks)):
        if tasks is None or tasks:
            return f"{name} must be empty when (re-)joining."
    return "Topology must be non-null when (re-)joining." if beat.topology is None else None


def _check_changelogs(beat: StreamsGroupHeartbeatRequest) -> None:
    """Raise Rejected(STREAMS_INVALID_TOPOLOGY) if the topology sets the partition count of a changelog topic, because the count results
    from the subtopology's source topics."""
    for subtopology in () if beat.topology is None else beat.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise Rejected(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}.",
                )


def heartbeat(
    update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest, client_id: str, client_host: str, *, exists: bool
) -> StreamsHeartbeatResult:
    """Process a heartbeat with an epoch of 0 (join) or above (stay), and return the response. `exists` is false if this heartbeat creates
    the group.

    Raises Rejected: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID or FENCED_INSTANCE_ID for static
    members, INVALID_REQUEST for tasks or a topology that do not fit, or STREAMS_INVALID_TOPOLOGY.
    """
    before = _member(update, beat)
    status: list[tuple[int, str]] = []
    after = _changed(before, beat, client_id, client_host, has_4_4_features=update.config.has_4_4_features)
    member_changed = update.put_member(before, after, names_instance=beat.instance_id is not None)
    if beat.topology is not None:
        update.put_topology(topology_value(beat.topology))
    metadata_hash = update.check_topology()
    _note_stale_topology(update, beat.member_id, status)
    _check_tasks(update, beat)
    _note_offsets(update, beat)
    was_empty = update.original_group.is_empty
    update.refresh(metadata_hash, member_changed=member_changed)
    if was_empty and update.config.initial_rebalance_delay_ms > 0:
        due_ms = update.now.mono_ms + update.config.initial_rebalance_delay_ms
        update.deadlines.set_if_absent(DeadlineKind.INITIAL_REBALANCE, "", due_ms)
    _assign(update, status)
    owned = _owned(beat)
    member = update.reconcile(beat.member_id, owned)
    update.start_session(member.member_id, update.config.session_timeout_ms)
    if beat.shutdown_application:
        request_shutdown(update, beat.member_id)
    is_changed = beat.member_epoch == JOIN_EPOCH or member.assigned != before.assigned
    _count_endpoint_changes(update, beat, before, member)
    _note_problems(update, member, status)
    return StreamsHeartbeatResult(
        member_id=member.member_id,
        epoch=member.epoch,
        heartbeat_interval_ms=update.config.heartbeat_interval_ms,
        task_offset_interval_ms=update.config.task_offset_interval_ms,
        acceptable_recovery_lag=update.config.acceptable_recovery_lag,
        status=status,
        tasks=member.assigned if is_changed or owned is not None else None,
        endpoint_epoch=update.original_group.endpoint_epoch if exists else 0,
        endpoints=_endpoints(update, member) if update.original_group.endpoint_epoch != beat.endpoint_information_epoch else None,
        topics_to_create=update.configured.internal_topics_to_create,
    )


def _count_endpoint_changes(
    update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest, before: StreamsMember, after: StreamsMember
) -> None:
    joins = beat.member_epoch == JOIN_EPOCH and not update.config.has_4_4_features
    endpoint_changed = update.config.has_4_4_features and before.user_endpoint != after.user_endpoint
    if endpoint_changed or (after.user_endpoint is not None and (joins or after.assigned != before.assigned)):
        update.original_group.endpoint_epoch += 1


def _note_problems(update: StreamsGroupUpdate, member: StreamsMember, status: list[tuple[int, str]]) -> None:
    """Append to `status` (pairs of status code and detail) what prevents the group from working: missing or wrongly partitioned topics, a
    shutdown that a member has requested, and required client tags that this member lacks."""
    if update.configured.problem is not None:
        status.append(update.configured.problem)
    member_id = update.original_group.shutdown_requested_by
    if member_id is not None:
        reason = f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire application."
        status.append((Status.SHUTDOWN_APPLICATION, reason))
    lacking = ", ".join(tag for tag in update.config.rack_tags if tag not in member.client_tags)
    if lacking:
        configure = "Configure them via 'client.tag.<tagKey>' in your Streams config."
        reason = f"Missing required client tags for rack-aware standby assignment: [{lacking}]. {configure}"
        status.append((Status.MISSING_CLIENT_TAGS, reason))


def leave(update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest) -> StreamsHeartbeatResult:
    """Remove the member, for good or (epoch -2: a static member that will return) temporarily; return the response. Raises
    Rejected(UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID)."""
    if beat.shutdown_application:
        request_shutdown(update, beat.member_id)
    member = update.group.existing_member(beat.member_id, beat.instance_id)
    if beat.member_epoch == LEAVE_STATIC_EPOCH:
        epochs = dict.fromkeys(member.epochs, 0)
        update.put_assignment(replace(member, epoch=LEAVE_STATIC_EPOCH, pending_revocation=TaskSet(), epochs=epochs))
        update.deadlines.cancel(DeadlineKind.REBALANCE, member.member_id)
    else:
        fence(update, member.member_id)
    return StreamsHeartbeatResult(member_id=beat.member_id, epoch=beat.member_epoch)


def request_shutdown(update: StreamsGroupUpdate, member_id: str) -> None:
    """Record that a member requested the shutdown of the application; each member's next response then has the status
    SHUTDOWN_APPLICATION."""
    update.original_group.shutdown_requested_by = update.original_group.shutdown_requested_by or member_id


def fence(update: StreamsGroupUpdate, member_id: str) -> None:
    """Remove a member from the streams group, because it left or missed a deadline."""
    update.remove_member(member_id)
    update.bump_after_leave()
    update.deadlines.cancel(DeadlineKind.SESSION, member_id)
    update.deadlines.cancel(DeadlineKind.REBALANCE, member_id)


def _member(update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """Return the member as it was before this heartbeat. A new member has only an id; a static member that returns under a new id has its
    former assignment. Raises Rejected: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH for a wrong epoch, GROUP_MAX_SIZE_REACHED, or
    UNRELEASED_INSTANCE_ID or FENCED_INSTANCE_ID if another member has the instance id."""
    if beat.member_epoch != JOIN_EPOCH:
        member = update.group.existing_member(beat.member_id, beat.instance_id)
        _check_epoch(member, beat)
        return member
    group, holder = update.group, update.group.static_member(beat.instance_id)
    if holder is None:
        if len(group.members) >= update.config.max_size and not (update.config.has_4_4_features and beat.member_id in group.members):
            raise Rejected(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"The streams group has reached its maximum capacity of {update.config.max_size} members."
            )
        return group.members.get(beat.member_id) or StreamsMember(member_id=beat.member_id)
    if holder.epoch != LEAVE_STATIC_EPOCH:
        raise Rejected(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the instance id is owned by "
            f"{holder.member_id} member.",
        )
    return update.replace_member(holder, beat.member_id)


def _check_epoch(member: StreamsMember, beat: StreamsGroupHeartbeatRequest) -> None:
    if beat.member_epoch == member.epoch:
        return
    owned = _owned(beat)
    lost = beat.member_epoch == member.previous_epoch and owned is not None and owned.is_subset_of(member.assigned)
    if beat.member_epoch < member.epoch and lost:
        return
    order = "greater" if beat.member_epoch > member.epoch else "smaller"
    raise Rejected(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {order} member epoch ({beat.member_epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _changed(
    member: StreamsMember, beat: StreamsGroupHeartbeatRequest, client_id: str, client_host: str, *, has_4_4_features: bool
) -> StreamsMember:
    """Return `member` with the fields that the heartbeat changes. From Kafka 4.4 on, a member that joins without an endpoint loses its
    earlier endpoint.
    """
    endpoint = None if has_4_4_features and beat.member_epoch == JOIN_EPOCH else member.user_endpoint
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if beat.rebalance_timeout_ms == -1 else beat.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if beat.topology is None else beat.topology.epoch,
        process_id=member.process_id if beat.process_id is None else beat.process_id,
        user_endpoint=endpoint if beat.user_endpoint is None else (beat.user_endpoint.host, beat.user_endpoint.port),
        client_tags=member.client_tags if beat.client_tags is None else {tag.key: tag.value for tag in beat.client_tags},
    )


def _owned(beat: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """Return the tasks that the request lists as owned; None if the request lacks one of the three lists."""
    if beat.active_tasks is None or beat.standby_tasks is None or beat.warmup_tasks is None:
        return None
    return TaskSet(tasks_from(beat.active_tasks), tasks_from(beat.standby_tasks), tasks_from(beat.warmup_tasks))


def _note_stale_topology(update: StreamsGroupUpdate, member_id: str, status: list[tuple[int, str]]) -> None:
    topology, sent = update.group.topology, update.group.members[member_id].topology_epoch
    if topology is not None and sent < topology.epoch:
        detail = f"The member's topology epoch {sent} is behind the group's topology epoch {topology.epoch}."
        status.append((Status.STALE_TOPOLOGY, detail))


def _check_tasks(update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest) -> None:
    """Raise Rejected(INVALID_REQUEST) if the topology is ready and the request lists a task that the topology does not have."""
    if not update.configured.is_ready:
        return
    for kind in (beat.active_tasks, beat.standby_tasks, beat.warmup_tasks):
        for tasks in kind or ():
            _check_task(update, tasks)


def _check_task(update: StreamsGroupUpdate, tasks: TaskIds) -> None:
    subtopology = (update.configured.subtopologies or {}).get(tasks.subtopology_id)
    if subtopology is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Subtopology {tasks.subtopology_id} does not exist in the topology.")
    for partition in tasks.partitions:
        if not 0 <= partition < subtopology.number_of_tasks:
            raise Rejected(
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {tasks.subtopology_id} is invalid. Number of tasks for this subtopology: "
                f"{subtopology.number_of_tasks}",
            )


def _note_offsets(update: StreamsGroupUpdate, beat: StreamsGroupHeartbeatRequest) -> None:
    """Store the changelog offsets that the member reports for its tasks; tasks outside the topology are ignored. Raises
    Rejected(INVALID_REQUEST) if a task is listed twice."""
    if beat.task_offsets is None and beat.task_end_offsets is None:
        return
    reports = update.original_group.reports
    report = reports.get(beat.member_id, OffsetReport())
    if beat.task_offsets is not None:
        report = report._replace(offsets=_by_task(update, beat.task_offsets))
    if beat.task_end_offsets is not None:
        report = report._replace(end_offsets=_by_task(update, beat.task_end_offsets))
    kept = {member_id: one for member_id, one in reports.items() if member_id in update.group.members}
    update.original_group.reports = {**kept, beat.member_id: report}


def _by_task(update: StreamsGroupUpdate, offsets: Sequence[TaskOffset]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for one in offsets:
        task = one.subtopology_id, one.partition
        if task in found:
            text = f"Task offsets contain a duplicate entry for subtopology {one.subtopology_id} and partition {one.partition}."
            raise Rejected(ErrorCode.INVALID_REQUEST, text)
        found[task] = one.offset
    tasks = {name: one.number_of_tasks for name, one in (update.configured.subtopologies or {}).items()}
    return {task: offset for task, offset in found.items() if 0 <= task[1] < tasks.get(task[0], 0)}


def _assign(update: StreamsGroupUpdate, status: list[tuple[int, str]]) -> None:
    """Compute the target assignment if it is older than the group epoch. If that has to wait, for the initial rebalance delay or the
    assignment interval, append the reason to `status`."""
    if update.delays_first_assignment:
        status.append((Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."))
        return
    if update.group.assignment_epoch < update.group.epoch and update.next_epoch == update.group.assignment_epoch:
        status.append((Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."))
    update.maybe_compute_target()


def _endpoints(update: StreamsGroupUpdate, member: StreamsMember) -> list[EndpointToPartitions]:
    """Return the endpoint of each member that has one, with the input partitions of its active and standby tasks. The endpoint of `member`
    comes last. While the existing topics do not fit the topology, the endpoints have no partitions.
    """
    subtopologies = update.configured.subtopologies
    others = [one for member_id, one in update.group.members.items() if member_id != member.member_id]
    found = []
    for one in [*others, member]:
        if one.user_endpoint is not None:
            kinds = () if subtopologies is None else (one.assigned.active, one.assigned.standby)
            partitions = [
                input_partitions(tasks, subtopologies or {}, update.partitions_of, only_existing=update.config.has_4_4_features)
                for tasks in kinds
            ]
            found.append(EndpointToPartitions(Endpoint(*one.user_endpoint), *partitions))
    return found
