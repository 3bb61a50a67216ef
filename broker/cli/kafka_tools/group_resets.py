"""`kafka-consumer-groups --reset-offsets` and `--delete-offsets` (Kafka's ConsumerGroupCommand and OffsetsUtils)."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import EARLIEST, LATEST, AdminClient, ErrorResponse, TopicPartition
from ottla.broker.cli.group_described import INACTIVE, described
from ottla.broker.cli.group_offsets import NO_OFFSET, commit, committed_offsets, timestamp_ms
from ottla.broker.cli.kafka_tools.java_errors import error_message, java_exception
from ottla.broker.cli.kafka_tools.options import ToolParser, UsageError, columns, error_line
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

Offsets = dict[TopicPartition, int]
_WIDTH: Final = 15
_SCENARIOS: Final = ("from-file", "to-datetime", "by-duration", "to-latest", "to-current", "to-earliest", "to-offset", "shift-by")
_DURATION: Final = re.compile(
    r"(-?)P(?=.)(?:(?P<days>[+-]?\d+)D)?(?:T(?=.)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_WHOLE_GROUP: Final = frozenset(
    {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NON_EMPTY_GROUP}
)


def add_options(made: ToolParser) -> None:
    """Add the options of an offset reset to the parser: those for the new offsets and the output."""
    for name in ("--dry-run", "--execute", "--export", "--to-earliest", "--to-latest", "--to-current"):
        made.flag(name)
    made.add_argument("--to-offset", type=int)
    made.add_argument("--shift-by", type=int)
    made.add_argument("--to-datetime")
    made.add_argument("--by-duration", help="reset to the offsets at this time ago, such as P1DT2H30M")
    made.add_argument("--from-file", type=Path, help="reset to the offsets in a file, as --export prints them")


def check_options(options: argparse.Namespace) -> None:
    """Raise `UsageError` if the options of an offset reset contradict each other, or a required one is missing. Print a warning if no
    offset will be committed because neither --execute nor --dry-run is given."""
    if options.dry_run and options.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    given = [name for name in _SCENARIOS if getattr(options, name.replace("-", "_")) not in {None, False}]
    if len(given) > 1:
        raise UsageError(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
    if not given:
        every = ", ".join(f"[{name}]" for name in _SCENARIOS)
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{every}]")
    if not (options.all_topics or options.topic or options.from_file):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not options.dry_run and not options.execute:
        warn("WARN: No action will be performed as the --execute option is missing.")


def warn(text: str) -> None:
    """Print a warning to standard error, apart from the output that scripts parse."""
    print(text, file=sys.stderr)


def reset(cluster: AdminClient, groups: Sequence[str], options: argparse.Namespace) -> None:
    """Print the new offsets of the groups, and commit them if the option --execute is given. A group that has members is not reset: an
    error is printed for it."""
    found = {group: _reset_group(cluster, group, options) for group in groups}
    rows = [(group, place.topic, place.partition, offset) for group, offsets in found.items() for place, offset in offsets.items()]
    if options.export:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([row[1:] for row in rows] if len(options.group) == 1 else rows)
        print(out.getvalue())
        return
    widths = [max([_WIDTH, *map(len, found)]), max([_WIDTH, *(len(row[1]) for row in rows)]), 10]
    print(columns([("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows], widths))


def _reset_group(cluster: AdminClient, group: str, options: argparse.Namespace) -> Offsets:
    try:
        state = described(cluster, group).state
    except ErrorResponse as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        state = "Dead"
    if state not in INACTIVE:
        error_line(f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}.")
        return {}
    offsets = _new_offsets(cluster, group, options)
    if options.execute:
        commit(cluster, group, offsets)
    return offsets


def _new_offsets(cluster: AdminClient, group: str, options: argparse.Namespace) -> Offsets:
    if options.from_file is not None:
        plan = _plan(options.from_file, options.group).get(group)
        if plan is None:
            error_line(f"No reset plan for group {group} found")
        return _within(cluster, plan or {})
    places = sorted(committed_offsets(cluster, group)) if options.all_topics else _places(cluster, options.topic)
    if options.to_offset is not None:
        return _within(cluster, dict.fromkeys(places, options.to_offset))
    if options.shift_by is not None:
        before = committed_offsets(cluster, group)
        for place in places:
            if place not in before:
                what = f"{place.topic}-{place.partition}"
                raise UsageError(f"Cannot shift offset for partition {what} since there is no current committed offset")
        return _within(cluster, {place: before[place] + options.shift_by for place in places})
    if options.to_earliest:
        return _of(places, cluster.offsets(places, EARLIEST))
    ends = cluster.offsets(places, LATEST)
    if options.to_latest:
        return _of(places, ends)
    if options.to_current:
        return _of(places, ends | committed_offsets(cluster, group))
    at_ms = timestamp_ms(options.to_datetime) if options.by_duration is None else _ago_ms(options.by_duration)
    return _at_time(places, cluster.offsets(places, at_ms), ends)


def _at_time(places: Sequence[TopicPartition], found: Offsets, ends: Offsets) -> Offsets:
    for place in places:
        if found[place] == NO_OFFSET:
            print(f"\nWarn: Partition {place.partition} from topic {place.topic} is empty. Falling back to latest known offset.")
    return {place: ends[place] if found[place] == NO_OFFSET else found[place] for place in places}


def _of(places: Sequence[TopicPartition], found: Offsets) -> Offsets:
    return {place: found[place] for place in places}


def _ago_ms(duration: str) -> int:
    read = _DURATION.fullmatch(duration)
    if read is None:
        raise CliError("Text cannot be parsed to a Duration")
    length = timedelta(**{name: float(value) for name, value in read.groupdict().items() if value is not None})
    return int(time.time() * 1000) - int(length.total_seconds() * 1000) * (-1 if read[1] else 1)


def _plan(file: Path, groups: Sequence[str]) -> dict[str, Offsets]:
    """Return the offsets, by group, in a file that --export printed. Rows without a group name apply to the only element of `groups`.
    Raises CliError if the file cannot be read or a row is invalid."""
    plan: dict[str, Offsets] = {}
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.reader(lines):
                if row:
                    *group, topic, partition, offset = row
                    (name,) = group or groups
                    plan.setdefault(name, {})[TopicPartition(topic, int(partition))] = int(offset)
    except (OSError, ValueError) as error:
        raise CliError(f"{file}: {error}") from None
    return plan


def _within(cluster: AdminClient, wanted: Offsets) -> Offsets:
    """Return the wanted offsets, each moved into the range of its partition's log if necessary; print a warning for each that was moved."""
    starts, ends = cluster.offsets(wanted, EARLIEST), cluster.offsets(wanted, LATEST)
    found = {}
    for place, offset in wanted.items():
        found[place] = min(max(offset, starts[place]), ends[place])
        if found[place] != offset:
            relation = "higher than latest" if offset > found[place] else "lower than earliest"
            what = f"topic partition {place.topic}-{place.partition}"
            warn(f"WARN New offset ({offset}) is {relation} offset for {what}. Value will be set to {found[place]}")
    return found


def _places(cluster: AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    found, named = list[TopicPartition](), list[TopicPartition]()
    for wanted in topics:
        topic, colon, listed = wanted.partition(":")
        if colon:
            named += _named(wanted, topic, listed)
        else:
            found += _partitions(cluster, topic)
    absent = [place for place in named if place not in _partitions(cluster, place.topic)]
    if absent:
        names = ",".join(f"{place.topic}-{place.partition}" for place in absent)
        raise CliError(f'The partitions "{names}" do not exist')
    return sorted({*named, *found})


def _named(wanted: str, topic: str, listed: str) -> list[TopicPartition]:
    for part in listed.split(","):
        if not part.isdecimal():
            raise UsageError(f"Invalid partition '{part}' specified in topic arg '{wanted}''")
    return [TopicPartition(topic, int(part)) for part in listed.split(",")]


def _partitions(cluster: AdminClient, topic: str) -> list[TopicPartition]:
    try:
        return [TopicPartition(topic, each.partition_index) for found in cluster.topics([topic]) for each in found.partitions]
    except ErrorResponse as error:
        raise ErrorResponse(error_message(error.code), error.code) from None


def delete_offsets(cluster: AdminClient, group: str, topics: Sequence[str]) -> None:
    """Delete a group's committed offsets for topics or partitions, and print the result for each."""
    places, status = list[TopicPartition](), dict[tuple[str, int], str]()
    for wanted in topics:
        topic, colon, listed = wanted.partition(":")
        try:
            places += _named(wanted, topic, listed) if colon else _partitions(cluster, topic)
        except ErrorResponse as error:
            status[topic, -1] = f"Error: {java_exception(error.code)}"
    requested = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(place.partition) for place in places if place.topic == name])
        for name in dict.fromkeys(place.topic for place in places)
    ]
    answer = cluster.coordinator(group, OffsetDeleteRequest(group, requested))
    codes = {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}
    for place in places:
        code = answer.error_code or codes[place.topic, place.partition]
        status[place.topic, place.partition] = "Successful" if code == ErrorCode.NONE else f"Error: {java_exception(code)}"
    _print_deleted(group, answer.error_code or next((code for code in codes.values() if code), ErrorCode.NONE))
    rows = [(topic, "-" if index < 0 else index, error_message, "") for (topic, index), error_message in sorted(status.items())]
    head = ("TOPIC", "PARTITION", "STATUS", "")
    text = columns([head, *rows], [max([_WIDTH, *(len(row[0]) for row in rows)]), 10, _WIDTH])
    print("\n".join(line.removesuffix(" ") for line in text.split("\n")))


def _print_deleted(group: str, code: int) -> None:
    if code == ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group}.")
    elif code in _WHOLE_GROUP:
        error_line(error_message(code))
    else:
        error_line("Encountered some partition-level error, see the follow-up details.")
