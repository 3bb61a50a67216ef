"""`kafka-consumer-groups`: lists, describes, resets and deletes consumer groups (Kafka's ConsumerGroupCommand).

As in Kafka, the exit code is 0 whatever the cluster answers, also if a group does not exist or has members. The error is printed; scripts
that reset or delete a missing group continue. Only invalid options end with exit code 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import LATEST, AdminClient, ErrorResponse
from ottla.broker.cli.group_described import CONSUMER_TYPES, GroupDescribed, MemberDescribed, described
from ottla.broker.cli.group_offsets import committed_positions
from ottla.broker.cli.kafka_tools import group_resets
from ottla.broker.cli.kafka_tools.java_errors import java_exception, java_exception_of
from ottla.broker.cli.kafka_tools.options import ToolParser, UsageError, cluster_of, columns, error_line, guarded
from ottla.broker.cli.operations import delete_group, list_groups
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest

_WIDTH: Final = 15
_ASSIGNMENT_WIDTH: Final = 20
_STATES: Final = ("Empty", "Assigning", "Reconciling", "Dead", "PreparingRebalance", "CompletingRebalance", "Stable")
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_TYPES: Final = ("Consumer", "Classic")
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_VIEWS: Final = ("members", "offsets", "state")
_ONLY_OF: Final = {"members": ("describe",), "offsets": ("describe",), "verbose": ("describe",), "type": ("list",), "state": _ACTIONS[:2]}


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-consumer-groups`."""
    made = ToolParser("kafka-consumer-groups", "This tool helps to list, describe, reset and delete consumer groups.")
    made.cluster_options()
    for action in _ACTIONS:
        made.flag(f"--{action}")
    made.listed("--group")
    made.listed("--topic", about="TOPIC or TOPIC:0,1,2")
    for name in ("--all-groups", "--all-topics", "--members", "--offsets", "--verbose"):
        made.flag(name)
    made.add_argument("--state", nargs="?", const="", default=None)
    made.add_argument("--type", nargs="?", const="", default=None)
    made.add_argument("--timeout", type=int)
    group_resets.add_options(made)
    return made


@guarded("\nError: Executing consumer group command failed due to ", code=0)
def main(argv: Sequence[str]) -> int:
    """Run `kafka-consumer-groups` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    action = read.one_of(options, *_ACTIONS)
    try:
        _check(action, options)
        with cluster_of(options) as cluster:
            _run(cluster, action, options)
    except UsageError as error:
        read.error(str(error))
    return 0


def _check(action: str, options: argparse.Namespace) -> None:
    for name, actions in _ONLY_OF.items():
        if getattr(options, name) not in {None, False} and action not in actions:
            raise UsageError(f"Option [{name}] is only valid with {', '.join(actions)}")
    if action == "delete-offsets" and not (options.group and options.topic):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if action != "list" and not options.group and not options.all_groups:
        raise UsageError(f"Option [{action}] takes one of these options: [group], [all-groups]")
    if action == "delete" and options.topic:
        raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if action == "describe":
        if sum(getattr(options, view) not in {None, False} for view in _VIEWS) > 1:
            raise UsageError(f"Option [describe] takes at most one of these options: {', '.join(f'[{view}]' for view in _VIEWS)}")
        if options.state:
            raise UsageError("Option [describe] does not take a value for [state]")
    if action == "reset-offsets":
        group_resets.check_options(options)


def _run(cluster: AdminClient, action: str, options: argparse.Namespace) -> None:
    if action == "list":
        _list(cluster, options)
        return
    groups = [group.group_id for group in _listed(cluster)] if options.all_groups else options.group
    match action:
        case "describe":
            _describe(cluster, groups, options)
        case "delete":
            _delete(cluster, groups)
        case "reset-offsets":
            group_resets.reset(cluster, groups, options)
        case _:
            group_resets.delete_offsets(cluster, groups[0], options.topic)


# --- list -------------------------------------------------------------------------------------------------------------------------


def _listed(cluster: AdminClient) -> list[Any]:
    return [group for group in list_groups(cluster) if group.protocol_type in CONSUMER_TYPES]


def _list(cluster: AdminClient, options: argparse.Namespace) -> None:
    found = _listed(cluster)
    if options.state is None and options.type is None:
        for group in found:
            print(group.group_id)
        return
    states = _among(options.state, _STATES, "state", "states")
    types = _among(options.type, _TYPES, "types", "types")
    shown = [group for group in found if group.group_state in states and group.group_type.capitalize() in types]
    rows: list[tuple[Any, ...]] = [("GROUP", "TYPE", "STATE")]
    rows += [(group.group_id, group.group_type.capitalize(), group.group_state) for group in shown]
    width = max([_WIDTH, *(len(group.group_id) for group in shown)]) + 10
    for name, kind, state in rows:
        cells = [*([] if options.type is None else [kind]), *([] if options.state is None else [state])]
        print(" ".join([f"{name:<{width}}", *(f"{cell:<20}" for cell in cells)]))


def _among(given: str | None, known: Sequence[str], what: str, plural: str) -> set[str]:
    """Return the values in the comma-separated list `given`; all `known` values if there is no list. Raises UsageError for an unknown
    value; `what` and `plural` name the values in its text."""
    by_name = {each.lower(): each for each in known}
    wanted = [each.strip().lower() for each in given.split(",")] if given else [*by_name]
    if not by_name.keys() >= set(wanted):
        raise UsageError(f"Invalid {what} list '{given}'. Valid {plural} are: {', '.join(known)}")
    return {by_name[each] for each in wanted}


# --- describe ---------------------------------------------------------------------------------------------------------------------


def _describe(cluster: AdminClient, groups: Sequence[str], options: argparse.Namespace) -> None:
    try:
        found = [described(cluster, group) for group in sorted(set(groups))]
    except ErrorResponse as error:
        raise CliError(java_exception_of(error)) from None
    for group in found:
        if group.state == "Dead":
            error_line(f"Consumer group '{group.group}' does not exist.")
        elif group.state == "Empty":
            group_resets.warn(f"\nConsumer group '{group.group}' has no active members.")
        elif group.state in _REBALANCING:
            group_resets.warn(f"\nWarning: Consumer group '{group.group}' is rebalancing.")
        if options.members:
            _print_members(group, verbose=options.verbose)
        elif group.state == "Dead":
            continue
        elif options.state is not None:
            _print_state(cluster, group, verbose=options.verbose)
        else:
            _print_offsets(cluster, group, verbose=options.verbose)


def _print_offsets(cluster: AdminClient, group: GroupDescribed, *, verbose: bool) -> None:
    """Print the offsets of the group's partitions: first by member, the member with the most partitions first, then committed partitions
    without a member."""
    committed, owners = committed_positions(cluster, group.group), group.owners
    ends = cluster.offsets(places, LATEST) if (places := {*committed, *owners}) else {}
    head = ("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    rows: list[tuple[Any, ...]] = [head]
    nobody = MemberDescribed("-", None, "-", "-", [place for place in committed if place not in owners])
    for member in [*sorted(group.members, key=lambda each: -len(each.assigned)), nobody]:
        for place in sorted(member.assigned, key=lambda each: (each.topic, each.partition)):
            offset, epoch = committed.get(place, (None, -1))
            lag = "-" if offset is None else ends[place] - offset
            read = ("-" if epoch < 0 else epoch, "-" if offset is None else offset, ends[place], lag)
            rows.append((group.group, place.topic, place.partition, *read, member.member_id, member.host, member.client_id))
    if len(rows) == 1:
        return
    widths = [_widest(rows, 0), _widest(rows, 1), 10, 15, 15, 15, 15, _widest(rows, 7), _widest(rows, 8)]
    if not verbose:
        rows, widths = [(*row[:3], *row[4:]) for row in rows], [*widths[:3], *widths[4:]]
    print(columns(rows, widths))


def _widest(rows: Sequence[Sequence[Any]], at: int, least: int = _WIDTH) -> int:
    return max(least, *(len(str(row[at])) for row in rows[1:])) if len(rows) > 1 else least


def _print_members(group: GroupDescribed, *, verbose: bool) -> None:
    head = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    rows: list[list[Any]] = [head]
    for each in group.members:
        row = [group.group, each.member_id, each.instance_id or "", each.host, each.client_id, len(each.assigned)]
        row += [_or_dash(each.epoch), _places(each.assigned), _or_dash(group.assignment_epoch), _places(each.target)]
        rows.append([*row, "-" if each.upgraded is None else str(each.upgraded).lower()])
    widths = [_widest(rows, at) for at in range(5)]
    widths[2] = _widest(rows, 2, 17)
    widths += [_WIDTH, _WIDTH, _widest(rows, 7, _ASSIGNMENT_WIDTH), _WIDTH, _widest(rows, 9, _ASSIGNMENT_WIDTH)]
    kept = [0, 1, *([2] if any(each.instance_id for each in group.members) else []), 3, 4, 5]
    if verbose:
        migrates = {each.upgraded for each in group.members} >= {True, False}
        kept += [6, 7, 8, 9, *([10] if migrates else [])]
    widths = [widths[at] for at in kept if at < len(widths)]
    print(columns([[*(row[at] for at in kept), *([] if verbose else [""])] for row in rows], widths))


def _or_dash(value: int | None) -> int | str:
    return "-" if value is None else value


def _places(assigned: Sequence[Any]) -> str:
    """Format assigned partitions by topic, as in `orders:0,1;payments:3`; `-` if there are none."""
    topics = sorted({place.topic for place in assigned})
    by_topic = {topic: sorted(place.partition for place in assigned if place.topic == topic) for topic in topics}
    return ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic.items()) or "-"


def _print_state(cluster: AdminClient, group: GroupDescribed, *, verbose: bool) -> None:
    answer = cluster.any(FindCoordinatorRequest(key=group.group, key_type=0, coordinator_keys=[group.group]))
    at = answer.coordinators[0] if answer.coordinators else answer
    head = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS")
    where = f"{at.host}:{at.port}  ({at.node_id})"
    epochs = _or_dash(group.epoch), _or_dash(group.assignment_epoch)
    row = (group.group, where, group.assignor or "-", group.state, *epochs, len(group.members))
    widths = [max(_WIDTH, len(group.group)), max(25, len(where)), 20, 20, 15, 25]
    kept = range(7) if verbose else (0, 1, 2, 3, 6)
    print(columns([[cells[at] for at in kept] for cells in (head, row)], [widths[at] for at in kept if at < len(widths)]))


# --- delete -----------------------------------------------------------------------------------------------------------------------


def _delete(cluster: AdminClient, groups: Sequence[str]) -> None:
    failed = {}
    for group in groups:
        try:
            delete_group(cluster, group)
        except ErrorResponse as error:
            failed[group] = java_exception(error.code)
    if failed:
        error_line("Deletion of some consumer groups failed:")
        for group, why in failed.items():
            print(f"* Group '{group}' could not be deleted due to: {why}")
    deleted = ", ".join(f"'{group}'" for group in groups if group not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
    elif deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")
