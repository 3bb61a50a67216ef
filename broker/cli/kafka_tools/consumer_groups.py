"""`kafka-consumer-groups`: list, describe, reset and delete consumer groups (Kafka's ConsumerGroupCommand).

Rule: as Kafka's, it ends with exit code 0 for a group that is not there, or has members: that is told, and scripts that reset or delete
what may not be there go on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import EARLIEST, LATEST, AdminClient, TopicPartition, name_of
from ottla.broker.cli.group_offsets import NO_OFFSET, commit, committed_offsets, timestamp_ms
from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, columns, guarded
from ottla.broker.groups.embedded_protocol import assigned_places
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

_CONSUMERS: Final = frozenset({"consumer", ""})
_WIDTH: Final = 15
_INACTIVE: Final = frozenset({"Empty", "Dead"})
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")


def parser() -> ToolParser:
    """The options."""
    made = ToolParser("kafka-consumer-groups", "This tool helps to list, describe, reset and delete consumer groups.")
    made.cluster_options()
    for action in _ACTIONS:
        made.flag(f"--{action}")
    made.listed("--group")
    made.listed("--topic", about="TOPIC or TOPIC:0,1,2")
    for name in ("--all-groups", "--all-topics", "--members", "--offsets", "--verbose", "--dry-run", "--execute", "--export"):
        made.flag(name)
    made.add_argument("--state", nargs="?", const="", default=None)
    made.add_argument("--timeout", type=int)
    for name in ("--to-earliest", "--to-latest", "--to-current"):
        made.flag(name)
    made.add_argument("--to-offset", type=int)
    made.add_argument("--shift-by", type=int)
    made.add_argument("--to-datetime")
    return made


@guarded("\nError: Executing consumer group command failed due to ")
def main(argv: Sequence[str]) -> int:
    """The exit code."""
    read = parser()
    options = read.read(argv)
    action = read.one_of(options, *_ACTIONS)
    if action != "list" and not options.group and not options.all_groups:
        read.error(f"Option [{action}] takes one of these options: [all-groups], [group]")
    with cluster_of(options) as cluster:
        if action == "list":
            _list(cluster, options)
            return 0
        groups = [group.group_id for group in _listed(cluster)] if options.all_groups else options.group
        if action == "delete":
            _delete(cluster, groups)
            return 0
        for group in groups:
            {"describe": _describe, "reset-offsets": _reset, "delete-offsets": _delete_offsets}[action](cluster, group, options)
    return 0


def _listed(cluster: AdminClient) -> list[Any]:
    found = [group for answer in cluster.every_broker(ListGroupsRequest()) for group in answer.groups]
    return sorted((group for group in found if group.protocol_type in _CONSUMERS), key=lambda group: str(group.group_id))


def _list(cluster: AdminClient, options: argparse.Namespace) -> None:
    found = _listed(cluster)
    if options.state is None:
        for group in found:
            print(group.group_id)
        return
    wanted = {state.strip().lower() for state in options.state.split(",") if state}
    shown = [group for group in found if not wanted or group.group_state.lower() in wanted]
    width = max([_WIDTH, *(len(group.group_id) for group in shown)]) + 10
    for row in [("GROUP", "STATE"), *((group.group_id, group.group_state) for group in shown)]:
        print(f"{row[0]:<{width}} {row[1]:<20}")


def _described(cluster: AdminClient, group: str) -> DescribedGroup | None:
    """None, and a line, where there is no such group."""
    found: DescribedGroup = cluster.coordinator(group, DescribeGroupsRequest([group])).groups[0]
    if found.error_code != ErrorCode.NONE or found.group_state == "Dead":
        print(f"\nError: Consumer group '{group}' does not exist.")
        return None
    if found.group_state == "Empty":
        print(f"\nConsumer group '{group}' has no active members.")
    elif found.group_state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group}' is rebalancing.")
    return found


def _describe(cluster: AdminClient, group: str, options: argparse.Namespace) -> None:
    found = _described(cluster, group)
    if found is None:
        return
    if options.members:
        _print_members(group, found)
    elif options.state is not None:
        _print_state(cluster, group, found)
    else:
        _print_offsets(cluster, group, found)


def _print_offsets(cluster: AdminClient, group: str, found: DescribedGroup) -> None:
    owners = {
        TopicPartition(topic, index): member for member in found.members for topic, index in assigned_places(member.member_assignment)
    }
    committed = committed_offsets(cluster, group)
    places = sorted(committed.keys() | owners.keys(), key=lambda place: (place.topic, place.partition))
    ends = cluster.offsets(places, LATEST) if places else {}
    rows: list[tuple[Any, ...]] = [
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    ]
    for place in places:
        member, offset, end = owners.get(place), committed.get(place), ends[place]
        reader = ("-", "-", "-") if member is None else (member.member_id, member.client_host, member.client_id)
        read = ("-", end, "-") if offset is None else (offset, end, end - offset)
        rows.append((group, place.topic, place.partition, *read, *reader))
    if len(rows) > 1:
        widest = [max(_WIDTH, *(len(str(row[at])) for row in rows)) for at in range(8)]
        print(columns(rows, [widest[0], widest[1], 10, 15, 15, 15, widest[6], widest[7]]))


def _print_members(group: str, found: DescribedGroup) -> None:
    rows: list[tuple[Any, ...]] = [("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")]
    for member in found.members:
        count = len(list(assigned_places(member.member_assignment)))
        rows.append((group, member.member_id, member.client_host, member.client_id, count))
    if len(rows) > 1:
        print(columns([(*row, "") for row in rows], [max(_WIDTH, *(len(str(row[at])) for row in rows)) for at in range(5)]))


def _print_state(cluster: AdminClient, group: str, found: DescribedGroup) -> None:
    answer = cluster.any(FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group]))
    at = answer.coordinators[0] if answer.coordinators else answer
    rows = [
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group, f"{at.host}:{at.port} ({at.node_id})", found.protocol_data, found.group_state, len(found.members)),
    ]
    print(columns(rows, [max(_WIDTH, len(group)), max(25, len(str(rows[1][1]))), 20, 20]))


def _delete(cluster: AdminClient, groups: Sequence[str]) -> None:
    failed = {}
    for group in groups:
        (result,) = cluster.coordinator(group, DeleteGroupsRequest([group])).results
        if result.error_code != ErrorCode.NONE:
            failed[group] = name_of(result.error_code)
    if failed:
        lines = "".join(f"\n* Group '{group}' could not be deleted due to: {why}" for group, why in failed.items())
        print(f"\nError: Deletion of some consumer groups failed:{lines}")
    if deleted := [f"'{group}'" for group in groups if group not in failed]:
        told = "\nThese consumer groups were deleted successfully: " if failed else "Deletion of requested consumer groups ("
        print(told + ", ".join(deleted) + ("" if failed else ") was successful."))


def _places(cluster: AdminClient, group: str, options: argparse.Namespace) -> list[TopicPartition]:
    if options.all_topics:
        return sorted(committed_offsets(cluster, group), key=lambda place: (place.topic, place.partition))
    places = []
    for wanted in options.topic:
        name, colon, listed = wanted.partition(":")
        known = [TopicPartition(name, partition.partition_index) for topic in cluster.topics([name]) for partition in topic.partitions]
        chosen = {int(part) for part in listed.split(",") if part.strip().isdecimal()}
        places += [place for place in sorted(known, key=lambda place: place.partition) if not colon or place.partition in chosen]
    if not places:
        raise CliError("One of the reset scopes should be defined: --all-topics, --topic.")
    return places


def _reset(cluster: AdminClient, group: str, options: argparse.Namespace) -> None:
    state = cluster.coordinator(group, DescribeGroupsRequest([group])).groups[0].group_state
    if state and state not in _INACTIVE:
        print(f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}.")
        return
    places = _places(cluster, group, options)
    starts, ends = cluster.offsets(places, EARLIEST), cluster.offsets(places, LATEST)
    wanted = starts if options.to_earliest else ends if options.to_latest else _wanted(cluster, group, options, ends)
    after = {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}
    if options.export:
        print("\n".join(f'"{group}",{p.topic},{p.partition},{after[p]}' for p in places))
    else:
        rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *((group, p.topic, p.partition, after[p]) for p in places)]
        print(columns(rows, [max(_WIDTH, len(group)), max(_WIDTH, *(len(p.topic) for p in places)), 10]))
    if options.execute and not options.dry_run:
        commit(cluster, group, after)


def _wanted(cluster: AdminClient, group: str, options: argparse.Namespace, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    if options.to_offset is not None:
        return dict.fromkeys(ends, options.to_offset)
    if options.to_datetime is not None:
        at = cluster.offsets(ends, timestamp_ms(options.to_datetime))
        return {place: ends[place] if offset == NO_OFFSET else offset for place, offset in at.items()}
    if options.shift_by is None and not options.to_current:
        raise CliError("--reset-offsets needs one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by and --to-datetime")
    before = committed_offsets(cluster, group)
    return {place: before.get(place, end) + (options.shift_by or 0) for place, end in ends.items()}


def _delete_offsets(cluster: AdminClient, group: str, options: argparse.Namespace) -> None:
    places = _places(cluster, group, options)
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(place.partition) for place in places if place.topic == name])
        for name in dict.fromkeys(place.topic for place in places)
    ]
    answer = cluster.coordinator(group, OffsetDeleteRequest(group, topics))
    if answer.error_code != ErrorCode.NONE:
        print(f"\nError: Deletion of offsets of group {group} failed: {name_of(answer.error_code)}")
        return
    print(f"Request succeeded for deleting offsets from group {group}.")
    status = {
        TopicPartition(topic.name, each.partition_index): "Successful" if each.error_code == 0 else f"Error: {name_of(each.error_code)}"
        for topic in answer.topics
        for each in topic.partitions
    }
    rows = [("TOPIC", "PARTITION", "STATUS"), *((place.topic, place.partition, status[place]) for place in places)]
    print(columns(rows, [30, 15]))
