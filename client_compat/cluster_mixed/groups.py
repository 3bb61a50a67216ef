"""Consumer groups of real clients that read every record and commit their positions; at the end, the received records are compared with the
log.

Rules:
- There are up to three groups: a classic group of different clients, a classic group of aiokafka alone, and a group of the clients that
  support KIP-848. Each has at least two members. A failed member is opened anew.
- A group must receive every record of the log, unchanged.
- A committed offset that a member fetches is never below an offset whose commit was acknowledged before. aiokafka 0.14 is not checked: it
  treats a rejected OffsetFetch like that of a group without offsets, and starts from the beginning.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from client_compat.clients.options import ConsumerOptions
from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.control import ClientError, ClientMissing, ProgramFailed
from client_compat.matrix.facades import Client, Consumer, Partition
from client_compat.support.counted import Counted
from client_compat.support.reading import Consumed
from client_compat.support.workers import RunFailed

Protocol = Literal["classic", "consumer"]
ASSIGNOR: Final = "range"
WITH_KIP_848: Final = ("confluent-kafka", "java")
MISLED: Final = "aiokafka"
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 10_000, 1_000
POLL_RECORDS, POLL_MS = 500, 300
LOOK_EVERY = 10
"""A group member fetches and checks the group's committed offsets once in this number of its polls."""
POLLS_MAX = 100
"""The number of polls after which a group member leaves the group and joins it again."""
PAUSE_S = 0.2
NOTHING: Final = -1
_LOG = logging.getLogger("client_compat.groups")
_LOG.propagate = False


@dataclass(slots=True)
class GroupVerdict(Counted):
    """The comparison of the records that consumer groups received with the log, in counts of records. `missed`: records of the log that a
    group did not receive. `backwards`: fetched committed offsets that were lower than an offset acknowledged before."""

    JUDGED = "given"
    WRONG = ("missed", "different", "backwards")
    given: int = 0
    """The number of different records that the groups received. A record that a group received again counts once."""
    missed: int = 0
    different: int = 0
    """Received records that differ from the log or are not in it."""
    backwards: int = 0


class Group:
    """The records that all members of a group received, and their commits. Its methods may be called on any thread."""

    def __init__(self, name: str, protocol: Protocol, partitions: int) -> None:
        self.name, self.protocol = name, protocol
        self.given = [array("q") for _ in range(partitions)]
        """For each partition, by offset: a checksum of the value that a member received, or NOTHING."""
        self.committed = [0] * partitions
        """The highest offset of each partition whose commit was acknowledged to any member of the group."""
        self.commits = 0
        """Number of acknowledged commits, which grows as the group progresses."""
        self.verdict = GroupVerdict()
        self._lock = threading.Lock()

    def take(self, partition: int, offset: int, value: bytes) -> None:
        given, sum_ = self.given[partition], zlib.crc32(value)
        with self._lock:
            given.extend([NOTHING] * (offset + 1 - len(given)))
            if given[offset] not in (NOTHING, sum_):
                self.verdict.different += 1
                self.verdict.note(f"{self.name}: offset {offset} of partition {partition} was given with two different values")
            given[offset] = sum_

    def acknowledged(self, offsets: Mapping[int, int]) -> None:
        with self._lock:
            self.commits += 1
            for partition, offset in offsets.items():
                self.committed[partition] = max(self.committed[partition], offset)

    def check_committed(self, client: str, before: Sequence[int], offsets: Mapping[int, int | None]) -> None:
        """Check the committed offsets that a member fetched (`offsets`, by partition). `before`: the highest offset of each partition whose
        commit was acknowledged before the fetch. A fetched offset below it is counted in `backwards`."""
        for partition, offset in offsets.items():
            if (offset or 0) < before[partition]:
                with self._lock:
                    self.verdict.backwards += 1
                    problem = f"{offset} is committed, after {before[partition]} was acknowledged"
                    self.verdict.note(
                        f"{self.name}: at {time.strftime('%H:%M:%S')} {client} was told for partition {partition} that {problem}"
                    )

    def judge(self, log: Sequence[Consumed]) -> GroupVerdict:
        """Compare the records that the group's members received with all records of the topic; return the counts of differences."""
        verdict, found = self.verdict, [dict[int, int]() for _ in self.given]
        for partition, offset, value in log:
            found[partition][offset] = zlib.crc32(value)
        for partition, (given, stands) in enumerate(zip(self.given, found, strict=True)):
            for offset, sum_ in enumerate(given):
                verdict.given += sum_ != NOTHING
                if sum_ != NOTHING and stands.get(offset) != sum_:
                    verdict.different += 1
                    verdict.note(f"{self.name}: offset {offset} of partition {partition} was given with a value that the log has not there")
            for offset in stands:
                if offset >= len(given) or given[offset] == NOTHING:
                    verdict.missed += 1
                    verdict.note(f"{self.name}: offset {offset} of partition {partition} was given to no member")
        return verdict


class Member:
    """A group member. Its thread runs a real client in a process of its own until `stop` is set, and restarts this process if it fails."""

    def __init__(self, group: Group, client: str, log: Path, bootstrap: str, topic: str, *, stop: threading.Event) -> None:
        self.name = f"{group.name} {client}"
        self.hung = 0
        """How often the member's client program was killed because a call did not return."""
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._group, self._client, self._program_log, self._stop = group, client, log, stop
        self._bootstrap, self._topic = bootstrap, topic
        self._log = _LOG.getChild(self.name)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._one_program()
        except (ClientMissing, ProgramFailed) as error:
            self.error = error

    def _one_program(self) -> None:
        with CLIENTS[self._client].program(self._program_log) as program:
            try:
                while not self._stop.is_set():
                    self._one_consumer(Client(self._client, program, self._bootstrap))
            except ProgramFailed as error:
                self._log.error("its program is killed: %s", error)
                self.hung += 1
                program.kill()

    def _one_consumer(self, client: Client) -> None:
        """Open a consumer, poll and commit until a call fails or POLLS_MAX polls are done, and close it, so that it leaves the group."""
        consumer = None
        try:
            consumer = client.consumer(**self._options())
            consumer.subscribe([self._topic])
            committed: dict[Partition, int] = {}
            for number in range(1, POLLS_MAX):
                if self._stop.is_set():
                    break
                self._poll(consumer, committed, look=number % LOOK_EVERY == 0)
        except ClientError as error:
            self._log.warning("%s", error)
            self._stop.wait(PAUSE_S)
        if consumer is not None:
            with suppress(ClientError):
                consumer.close()

    def _options(self) -> ConsumerOptions:
        options: ConsumerOptions = {"group": self._group.name, "auto_commit": False, "reset": "earliest"}
        if self._group.protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options["assignor"] = ASSIGNOR
            options["session_timeout_ms"], options["heartbeat_interval_ms"] = SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS
        return options

    def _poll(self, consumer: Consumer, committed: dict[Partition, int], *, look: bool) -> None:
        """Poll once, and commit the positions that have changed. `committed`: the offsets that this consumer has committed. With `look`,
        also fetch the group's committed offsets, and check that no committed offset is lower than before."""
        for taken in consumer.poll(POLL_RECORDS, POLL_MS):
            self._group.take(taken.partition, taken.offset, taken.value or b"")
        if not (mine := consumer.assignment()):
            return
        step = "position"
        try:
            # The positions, not the last records: after a rebalance they begin where another member has committed.
            offsets = {one: at for one, at in consumer.position(mine).items() if at and at != committed.get(one)}
            if offsets:
                step = "commit"
                consumer.commit(offsets)
                committed.update(offsets)
                self._group.acknowledged({partition: offset for (_, partition), offset in offsets.items()})
            if look and self._client != MISLED:
                step = "committed"
                before = list(self._group.committed)
                fetched = consumer.committed(mine)
                self._group.check_committed(self._client, before, {partition: offset for (_, partition), offset in fetched.items()})
        except ClientError as error:  # a rebalance, or a moving coordinator: it continues at its position
            self._log.warning("%s: %s", step, error)


@dataclass(frozen=True, slots=True)
class RunningGroups:
    """The consumer groups of a run, whose members run on threads until `finish`."""

    groups: Sequence[Group]
    members: Sequence[Member]
    _stop: threading.Event

    @property
    def answered(self) -> list[int]:
        return [group.commits for group in self.groups]

    @property
    def hung(self) -> list[str]:
        return [member.name for member in self.members for _ in range(member.hung)]

    def check(self) -> None:
        """Raise `RunFailed` if a member's program cannot be started."""
        for member in self.members:
            if member.error is not None:
                raise RunFailed(f"{member.name}: {member.error}")

    def finish(self, ends: Sequence[int], timeout_s: float) -> None:
        """Wait until each group has committed the end offset of every partition (`ends`), then let the members leave. Raises `RunFailed` if
        either takes longer than `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while behind := [group for group in self.groups if any(at < end for at, end in zip(group.committed, ends, strict=True))]:
            self.check()
            if time.monotonic() > deadline:
                description = "; ".join(f"{group.name} has committed {group.committed}" for group in behind)
                raise RunFailed(f"a group does not move: the partitions end at {list(ends)}, and {description}, after {timeout_s:.0f} s")
            time.sleep(PAUSE_S)
        self._stop.set()
        for member in self.members:
            member.thread.join(timeout_s)
            if member.thread.is_alive():
                raise RunFailed(f"{member.name} did not leave within {timeout_s:.0f} s")
        self.check()

    def judge(self, log: Sequence[Consumed]) -> GroupVerdict:
        """Compare the records that each group received with all records of the topic, and return the sum of the groups' counts."""
        whole = GroupVerdict()
        for group in self.groups:
            whole.add(group.judge(log))
        return whole


@contextmanager
def reading(clients: Sequence[str], directory: Path, bootstrap: str, topic: str, partitions: int) -> Iterator[RunningGroups]:
    """Run consumer groups with these client libraries on the topic while the context lasts. Yields the running groups; their `finish` ends
    them. Log files are written to `directory`."""
    stop = threading.Event()
    wanted: Mapping[Group, Sequence[str]] = {
        Group("classic-group", "classic", partitions): [client for client in clients if client != MISLED],
        Group("classic-group-of-aiokafka", "classic", partitions): [client for client in clients if client == MISLED],
        Group("consumer-group", "consumer", partitions): [client for client in clients if client in WITH_KIP_848],
    }
    members = [
        Member(group, client, directory / f"{group.name}-{number}-{client}.log", bootstrap, topic, stop=stop)
        for group, names in wanted.items()
        for number, client in enumerate([*names, *names] if len(names) == 1 else names)
    ]
    groups = [group for group, names in wanted.items() if names]
    with ExitStack() as stack:
        stack.enter_context(logged_to(_LOG, directory / "groups.log"))
        stack.callback(stop.set)
        for member in members:
            member.thread.start()
        yield RunningGroups(groups, members, stop)


@contextmanager
def logged_to(logger: logging.Logger, path: Path) -> Iterator[None]:
    """Write a logger's messages, with their times, to a file while the context lasts."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
