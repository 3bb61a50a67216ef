"""`ottla groups`: list, describe, reset and delete groups of any Kafka cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ottla.broker.cli import operations
from ottla.broker.cli.cluster import EARLIEST, LATEST, AdminClient, ErrorResponse, TopicPartition
from ottla.broker.cli.common import BOOTSTRAP, AsJson, Bootstrap, CliError, Yes, command, note, print_json, print_rows, print_table, say
from ottla.broker.cli.group_described import INACTIVE, GroupDescribed, described_with_offsets
from ottla.broker.cli.group_offsets import NO_OFFSET, commit, committed_offsets, timestamp_ms
from ottla.broker.cli.share_groups import StartOffset, alter_start_offsets, described_share_group, start_offsets
from ottla.protocol.error_codes import ErrorCode

app = typer.Typer(help="List, describe, reset and delete groups of any Kafka cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
@command
def list_groups(bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the groups of all brokers with their states."""
    with AdminClient(bootstrap) as cluster:
        groups = operations.list_groups(cluster)
    rows = [(group.group_id, group.group_state or None, group.group_type or None, group.protocol_type) for group in groups]
    print_rows(("group", "state", "type", "protocol"), rows, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Progress:
    """A group's position in one partition. `committed` is the next offset to read, None if no offset is committed. `end` is the log end
    offset; `member` is the member that reads the partition, None if there is none."""

    place: TopicPartition
    committed: int | None
    end: int
    member: str | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None else max(0, self.end - self.committed)


@app.command("describe")
@command
def describe(group: Name, bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show a group's members, and the committed offset, log end offset and lag of each partition.

    A share group has start offsets in place of committed ones, and its members share partitions.
    """
    with AdminClient(bootstrap) as cluster:
        found, shares = _described(cluster, group)
        columns: tuple[str, ...]
        rows: Sequence[Sequence[object]]
        if shares:
            columns, rows = ("topic", "partition", "start", "lag", "members"), _share_group_rows(cluster, found)
        else:
            columns = ("topic", "partition", "committed", "end", "lag", "member")
            owners = {place: member.member_id for place, member in found.owners.items()}
            rows = [(p.place.topic, p.place.partition, p.committed, p.end, p.lag, p.member) for p in _progress(cluster, group, owners)]
    if as_json:
        members = [{"member": m.member_id, "instance": m.instance_id, "client": m.client_id, "host": m.host} for m in found.members]
        offsets = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"group": group, "state": found.state, "assignor": found.assignor, "members": members, "offsets": offsets})
        return
    strategy = f", {found.assignor}" if found.assignor else ""
    say(f"{group}  {found.state}{strategy}, {len(found.members)} member{'' if len(found.members) == 1 else 's'}")
    if found.members:
        names = ("member", "instance", "client", "host", "partitions")
        print_table(names, [(m.member_id, m.instance_id, m.client_id, m.host, len(m.assigned)) for m in found.members])
    print_table(columns, rows)


def _described(cluster: AdminClient, group: str) -> tuple[GroupDescribed, bool]:
    """Return the description of a group of any kind, and whether it is a share group. Raises `CliError` if the group cannot be described;
    for a missing group, it is an `ErrorResponse` with GROUP_ID_NOT_FOUND."""
    try:
        return described_with_offsets(cluster, group), False
    except ErrorResponse as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND or (found := described_share_group(cluster, group)) is None:
            raise
        return found, True


def _share_group_rows(cluster: AdminClient, found: GroupDescribed) -> list[tuple[str, int, int | None, int | None, int]]:
    """Return a row for each partition of a share group: topic, partition, start offset, lag, and the number of members that read it."""
    starts, members = start_offsets(cluster, found.group), Counter(place for member in found.members for place in member.assigned)
    places = sorted(starts.keys() | members.keys())
    return [(place.topic, place.partition, *starts.get(place, StartOffset(None, None)), members[place]) for place in places]


def _progress(cluster: AdminClient, group: str, owners: dict[TopicPartition, str]) -> list[_Progress]:
    committed = committed_offsets(cluster, group)
    places = sorted(committed.keys() | owners.keys())
    ends = cluster.offsets(places, LATEST) if places else {}
    return [_Progress(place, committed.get(place), ends[place], owners.get(place)) for place in places]


@app.command("delete")
@command
def delete(groups: Annotated[list[str], typer.Argument(metavar="GROUP…")], bootstrap: Bootstrap = BOOTSTRAP, yes: Yes = False) -> None:
    """Delete groups without members, with their committed offsets."""
    if not yes:
        typer.confirm(f"Delete {', '.join(groups)} with all committed offsets?", abort=True, err=True)
    with AdminClient(bootstrap) as cluster:
        for group in groups:
            operations.delete_group(cluster, group)
            say(f"deleted {group}")


@app.command("reset-offsets")
@command
def reset_offsets(
    group: Name,
    *,
    topics: Annotated[
        list[str], typer.Option("--topic", "-t", metavar="TOPIC[:P,P…]", help="A topic, or some of its partitions; may be repeated.")
    ],
    to: Annotated[
        str | None, typer.Option(metavar="WHERE", help="earliest, latest, an offset, or a time such as 2026-01-31T12:00.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="Move the committed offsets by this many records; may be negative.")] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the offsets; without this option they are only shown.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Reset the offsets of a group without members: show the new offsets, and commit them with --execute.

    For example: ottla groups reset-offsets billing --topic orders --to earliest --execute
    """
    if (to is None) == (shift_by is None):
        raise CliError("give either --to or --shift-by")
    with AdminClient(bootstrap) as cluster:
        found, shares = _described(cluster, group)
        if found.state not in INACTIVE:
            raise CliError(f"group {group!r} is {found.state}: its members would overwrite the offsets. Stop them first")
        places = _selected_partitions(cluster, topics)
        before = _share_start_offsets(cluster, group) if shares else committed_offsets(cluster, group)
        starts, ends = cluster.offsets(places, EARLIEST), cluster.offsets(places, LATEST)
        if shift_by is not None:
            wanted = {place: before.get(place, starts[place]) + shift_by for place in places}
        else:
            wanted = _target_offsets(cluster, places, to or "", starts, ends)
        after = {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}
        print_table(("topic", "partition", "before", "after"), [(p.topic, p.partition, before.get(p), after[p]) for p in places])
        if execute:
            (alter_start_offsets if shares else commit)(cluster, group, after)
            note(f"committed {len(after)} offset{'' if len(after) == 1 else 's'}")
        else:
            note("Nothing changed yet: add --execute to commit these offsets.")


def _share_start_offsets(cluster: AdminClient, group: str) -> dict[TopicPartition, int]:
    """Return a share group's start offsets, by partition; partitions without a start offset are omitted. Raises `ErrorResponse` if the
    coordinator rejects the request."""
    return {place: start.offset for place, start in start_offsets(cluster, group).items() if start.offset is not None}


def _selected_partitions(cluster: AdminClient, topics: list[str]) -> list[TopicPartition]:
    places = []
    for wanted in topics:
        name, colon, listed = wanted.partition(":")
        if colon:
            if not all(part.isdecimal() for part in listed.split(",")):
                raise CliError(f"{wanted!r} is not of the form TOPIC:0,1,2")
            places += [TopicPartition(name, int(part)) for part in listed.split(",")]
        else:
            places += [TopicPartition(name, p.partition_index) for topic in cluster.topics([name]) for p in topic.partitions]
    return sorted(set(places))


def _target_offsets(
    cluster: AdminClient, places: list[TopicPartition], to: str, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if to == "earliest":
        return starts
    if to == "latest":
        return ends
    if to.isdecimal():
        return dict.fromkeys(places, int(to))
    at = cluster.offsets(places, timestamp_ms(to))
    return {place: ends[place] if offset == NO_OFFSET else offset for place, offset in at.items()}
