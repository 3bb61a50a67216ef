"""Programs for `ottla verify` that read the input as group members: a consumer and a stream program, each correct or with one mistake.

- SIGTERM ends a member at any point, so each step must be safe.
- A member whose request is rejected ends with code 1.
- The consumer's effects are files in OTTLA_WORK_DIR, one per partition. Each write replaces the whole file: the effects, and the position
  after them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack
from typing import Any

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.verified_program import PARTITIONS, PAUSE_S, Link, Refused, Writer, committed

GROUP = os.environ.get("OTTLA_GROUP", "members")
SESSION_MS = 6_000
TIMEOUT_S = 10
"""Timeout of a request in seconds. It is long, because a rebalance delays responses."""
STEP_RECORDS_MAX = 10
"""Maximum number of records that a member processes in one step."""
MEMBERSHIP_ERRORS = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors which say that the member has lost its membership or generation, so that it must join again."""

BeginAt = Callable[[int], int]
Take = Callable[[int, int, int, list[bytes]], None]
"""A function that processes some records of a partition. Its arguments: the partition, the offset before these records, the offset after
them, and their values."""


@dataclass
class Member:
    """The membership of this program in a consumer group of the classic protocol."""

    link: Link
    topic: str = field(default_factory=lambda: os.environ["OTTLA_INPUT"])
    member_id: str = ""
    generation: int = -1

    def join(self) -> list[int]:
        """Join, and retry while the group rebalances; return this member's partitions."""
        self.link.ask(FindCoordinatorRequest(key=GROUP, key_type=0), 3)
        while True:
            try:
                return self._join()
            except Refused as refused:
                if refused.error not in MEMBERSHIP_ERRORS:
                    raise
                if refused.error is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""

    def _join(self) -> list[int]:
        subscription = pack(">hih", 0, 1, len(self.topic)) + self.topic.encode() + pack(">i", -1)
        protocols = [JoinGroupRequestProtocol("turns", subscription)]
        joined = self.link.ask(
            JoinGroupRequest(GROUP, SESSION_MS, SESSION_MS, self.member_id, protocol_type="consumer", protocols=protocols), 3
        )
        self.member_id, self.generation = joined.member_id, joined.generation_id
        members = sorted(each.member_id for each in joined.members)
        shares = [
            SyncGroupRequestAssignment(member, b",".join(b"%d" % p for p in range(PARTITIONS) if members[p % len(members)] == member))
            for member in members
        ]
        answer = self.link.ask(SyncGroupRequest(GROUP, self.generation, self.member_id, assignments=shares), 2)
        return [int(number) for number in bytes(answer.assignment).split(b",") if number]

    def in_group(self) -> bool:
        """Return whether the member is still in the group's current generation."""
        try:
            self.link.ask(HeartbeatRequest(GROUP, self.generation, self.member_id), 2)
        except Refused as refused:
            if refused.error in MEMBERSHIP_ERRORS:
                return False
            raise
        return True

    def position(self, partition: int) -> int:
        """Return the committed offset, 0 if there is none. Wait first until no open transaction contains an offset of the partition,
        because it may still be committed."""
        topics = [OffsetFetchRequestTopic(self.topic, [partition])]
        request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True)
        found = self.link.ask(request, 7, lambda answer: answer.topics[0].partitions[0]).committed_offset
        return max(0, int(found))

    def commit(self, partition: int, offset: int) -> None:
        """Commit an offset; ignore the error if this member is no longer in the group."""
        topics = [OffsetCommitRequestTopic(self.topic, partitions=[OffsetCommitRequestPartition(partition, offset)])]
        request = OffsetCommitRequest(GROUP, self.generation, self.member_id, topics=topics)
        try:
            self.link.ask(request, 5, lambda answer: answer.topics[0].partitions[0])
        except Refused as refused:
            if refused.error not in MEMBERSHIP_ERRORS:
                raise

    def commit_in(self, writer: Writer, partition: int, offset: int) -> None:
        """Commit an offset within a transaction."""
        transactional_id = writer.transactional_id or ""
        self.link.ask(AddOffsetsToTxnRequest(transactional_id, writer.producer_id, writer.epoch, GROUP), 3)
        topics = [TxnOffsetCommitRequestTopic(self.topic, partitions=[TxnOffsetCommitRequestPartition(partition, offset)])]
        request = TxnOffsetCommitRequest(
            transactional_id, GROUP, writer.producer_id, writer.epoch, self.generation, self.member_id, topics=topics
        )
        self.link.ask(request, 4, lambda answer: answer.topics[0].partitions[0])


@dataclass
class Store:
    """The consumer's effects, stored in files together with the positions after them."""

    directory: Path = field(default_factory=lambda: Path(os.environ["OTTLA_WORK_DIR"]))

    def position(self, partition: int) -> int:
        """Return the stored position of the partition: the offset after the last stored effect."""
        return int(self._read(partition)["position"])

    def apply(self, partition: int, begin: int | None, end: int, values: list[str]) -> None:
        """Store effects and position together. Raises RuntimeError if another process has moved the position from `begin` (None: no
        check)."""
        now = self._read(partition)
        if begin is not None and now["position"] != begin:
            raise RuntimeError(f"partition {partition} is at {now['position']}, not at {begin}")
        new = self._path(partition).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"position": end, "effects": now["effects"] + values}))
        new.replace(self._path(partition))

    def effects(self) -> list[str]:
        """Return all stored effects of all partitions."""
        return [effect for partition in range(PARTITIONS) for effect in self._read(partition)["effects"]]

    def _path(self, partition: int) -> Path:
        return self.directory / f"effects-{partition}.json"

    def _read(self, partition: int) -> dict[str, Any]:
        path = self._path(partition)
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"position": 0, "effects": []}
        return found


def consumer(options: argparse.Namespace) -> int:
    """Run the consumer: store each effect together with the position after it. With the option `result`, only print the stored effects."""
    store = Store()
    if options.result:
        print(*store.effects(), sep="\n")
        return 0
    member = Member(Link(TIMEOUT_S))
    by_the_group = options.append or options.commit_first

    def begin_at(partition: int) -> int:
        if options.rewinds:
            return 0
        return member.position(partition) if by_the_group else store.position(partition)

    def take(partition: int, begin: int, end: int, values: list[bytes]) -> None:
        if options.commit_first:
            member.commit(partition, end)
        store.apply(partition, None if by_the_group or options.rewinds else begin, end, [value.decode() for value in values])
        if not options.commit_first:
            member.commit(partition, end)

    return _members_life(member, begin_at, take)


def stream(options: argparse.Namespace) -> int:
    """Run the stream program: write output and offsets in one transaction; with the flag `plain` without one, the output before the
    offsets."""
    link = Link(TIMEOUT_S)
    member = Member(link)
    writer = Writer(link) if options.plain else Writer(link, f"{GROUP}-{os.environ['OTTLA_INSTANCE']}", 1).init()

    def take(partition: int, _: int, end: int, values: list[bytes]) -> None:
        if values:
            writer.write(partition, [b"of-" + value for value in values])
        if options.plain:
            member.commit(partition, end)
        else:
            member.commit_in(writer, partition, end)
            writer.end()

    return _members_life(member, member.position, take, isolation=0 if options.uncommitted else 1)


def _members_life(member: Member, begin_at: BeginAt, take: Take, isolation: int = 1) -> int:
    """Run a group member until its process is killed: in turn, fetch some records of each assigned partition and process them with `take`.
    A newly assigned partition is read from the offset that `begin_at` returns."""
    positions: dict[int, int] = {}
    while True:
        if member.generation < 0 or not member.in_group():
            positions = {partition: begin_at(partition) for partition in member.join()}
        idle = True
        for partition, begin in positions.items():
            found, end = committed(member.link, member.topic, partition, begin, isolation=isolation)
            if len(found) > STEP_RECORDS_MAX:
                found, end = found[:STEP_RECORDS_MAX], found[STEP_RECORDS_MAX][0]
            if end > begin:
                take(partition, begin, end, [value for _, value in found])
                positions[partition], idle = end, False
        if idle:
            time.sleep(PAUSE_S)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("consumer", "stream"))
    for flag in ("result", "append", "commit-first", "rewinds", "plain", "uncommitted", "alone"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args()
    if options.alone and os.environ["OTTLA_INSTANCE"] != "1":
        return 0
    try:
        return consumer(options) if options.mode == "consumer" else stream(options)
    except (Refused, RuntimeError) as error:
        print(f"given up: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
