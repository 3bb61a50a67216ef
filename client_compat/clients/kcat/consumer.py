"""Consumers: `kcat -C`, one run for each assigned partition and poll; `kcat -G`, which keeps running, for a group member."""

from __future__ import annotations

import contextlib
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Any

from client_compat.clients.control import Answer, Partition, Request, Unsupported
from client_compat.clients.kcat.command import FORMAT, KcatFailed, checked, errors_of, kcat, records, settings

SETTINGS: Mapping[str, str | None] = {
    "client_id": "client.id",
    "group": None,
    "reset": None,
    "instance_id": "group.instance.id",
    "isolation": "isolation.level",
    "group_protocol": None,
    "assignor": "partition.assignment.strategy",
    "auto_commit": "enable.auto.commit",
    "auto_commit_interval_ms": "auto.commit.interval.ms",
    "session_timeout_ms": "session.timeout.ms",
    "heartbeat_interval_ms": "heartbeat.interval.ms",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "partition_fetch_bytes": "fetch.message.max.bytes",
}
RESETS = {"earliest": "smallest", "latest": "largest", "none": "error"}
QUERIES = {"beginning": -2, "earliest": -2, "end": -1, "latest": -1}
ASSIGNORS = {"range", "roundrobin", "cooperative-sticky"}
WAIT_S = 0.1
END_S = 10.0
READ_BYTES = 1 << 20
_REBALANCED = re.compile(r"rebalanced(?:: incremental (\w+) of \d+ partition\(s\))? \(memberid [^)]*\): (?:(assigned|revoked): )?(.*)")
_PLACE = re.compile(r"(\S+) \[(\d+)\]")
_ANSWER = re.compile(r"(\S+) \[(\d+)\] offset (-?\d+)")


class Run:
    """A running kcat process whose output is read as it arrives."""

    def __init__(self, arguments: list[str]) -> None:
        self.log: IO[bytes] = tempfile.TemporaryFile(prefix="kcat-")  # noqa: SIM115 -- closed by end(), with its writer
        # When this program is killed, its kcat has to die as well, as a library in another client program would.
        tied = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self.process = subprocess.Popen(
            [*tied, "kcat", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, bufsize=0
        )
        self._output = b""

    def take(self) -> list[Answer]:
        """Return the consumed records that kcat has printed completely since the last call."""
        assert self.process.stdout is not None, "it is a pipe"
        while select.select([self.process.stdout], [], [], 0)[0] and (more := self.process.stdout.read(READ_BYTES)):
            self._output += more
        found, size = records(self._output)
        self._output = self._output[size:]
        return found

    def log_text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def check(self) -> None:
        """Raise `KcatFailed` if kcat has ended with an error."""
        if self.process.poll():
            raise KcatFailed(errors_of(self.log_text().encode()) or f"it ended with {self.process.returncode}")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()


class Consumer:
    def __init__(self, request: Request) -> None:
        if request.get("group_protocol", "classic") != "classic":
            raise Unsupported("kcat's librdkafka has no KIP-848 groups")
        if (assignor := request.get("assignor")) is not None and assignor not in ASSIGNORS:
            raise Unsupported(f"kcat has no assignor {assignor}")
        if request.get("auto_commit") is False:
            raise Unsupported("kcat commits what it printed whenever partitions are taken from it, even with enable.auto.commit=false")
        self._reset = request.get("reset", "latest")
        self._base = ["-u", "-b", request["bootstrap"], "-f", FORMAT, "-X", f"auto.offset.reset={RESETS[self._reset]}"]
        self._base += settings(request, SETTINGS)
        self._bootstrap, self._group = request["bootstrap"], request.get("group")
        self._places: dict[Partition, int] = {}
        self._member: Run | None = None

    def subscribe(self, request: Request) -> None:
        if not self._group:
            raise Unsupported("kcat subscribes as a member of a group only")
        pattern = request.get("pattern")
        topics = request["topics"] if pattern is None else [pattern if pattern.startswith("^") else f"^{pattern}"]
        self._member = Run([*self._base, "-G", self._group, *topics])

    def assign(self, request: Request) -> None:
        if self._group:
            raise Unsupported("kcat has no groups for partitions that it is told to read: neither commits nor committed offsets")
        wanted = [(topic, index) for topic, index in request["partitions"]]
        at = {} if self._reset == "none" else {one: self._query(one, QUERIES[self._reset], request) for one in wanted}
        self._places = {one: at.get(one, -1) for one in wanted}

    def poll(self, request: Request) -> Answer:
        ends = time.monotonic() + request.timeout_s
        if self._member is not None:
            return {"records": self._wait([self._member], request["count"], ends)}
        if any(offset < 0 for offset in self._places.values()):
            raise Unsupported("kcat always begins somewhere: without a reset policy it has no position to refuse")
        runs = [Run([*self._base, "-q", "-C", "-t", topic, "-p", str(p), "-o", str(at)]) for (topic, p), at in self._places.items()]
        try:
            found = self._wait(runs, request["count"], ends)
        finally:
            for run in runs:
                run.end()
        for one in found:
            self._places[one["topic"], one["partition"]] = one["offset"] + 1
        return {"records": found}

    @staticmethod
    def _wait(runs: list[Run], count: int, ends: float) -> list[Answer]:
        found: list[Answer] = []
        while True:
            found += [one for run in runs for one in run.take()]
            if len(found) >= count or time.monotonic() >= ends:
                return found
            for run in runs:
                run.check()
            select.select(
                [run.process.stdout for run in runs if run.process.stdout], [], [], min(WAIT_S, max(0.0, ends - time.monotonic()))
            )

    def assignment(self, request: Request) -> Answer:
        if self._member is None:
            return {"partitions": [list(one) for one in sorted(self._places)]}
        held: set[Partition] = set()
        for incremental, whole, rest in _REBALANCED.findall(self._member.log_text()):
            named = {(topic, int(index)) for topic, index in _PLACE.findall(rest)}
            held = held | named if (incremental or whole).startswith("assign") else held - named
        return {"partitions": [list(one) for one in sorted(held)]}

    def seek(self, request: Request) -> None:
        if self._member is not None:
            raise Unsupported("kcat cannot seek as a member of a group")
        place, offset = (request["topic"], request["partition"]), request["offset"]
        self._places[place] = self._query(place, QUERIES[offset], request) if offset in QUERIES else offset

    def offsets_for_times(self, request: Request) -> Answer:
        return {
            "offsets": [[topic, index, _known(self._query((topic, index), at, request)), None] for topic, index, at in request["times"]]
        }

    def end_offsets(self, request: Request) -> Answer:
        return self._all(request, QUERIES["end"])

    def beginning_offsets(self, request: Request) -> Answer:
        return self._all(request, QUERIES["beginning"])

    def _all(self, request: Request, at: int) -> Answer:
        return {"offsets": [[topic, index, self._query((topic, index), at, request)] for topic, index in request["partitions"]]}

    def _query(self, place: Partition, at: int, request: Request) -> int:
        return query(self._bootstrap, place, at, request.timeout_s)

    def close(self) -> None:
        if self._member is not None:
            self._member.end()


def query(bootstrap: str, place: Partition, at: int, timeout_s: float) -> int:
    """Ask the broker with `kcat -Q` for the first offset at or after the timestamp `at` (-1: the end, -2: the beginning) and return it.
    Returns a negative number if there is none."""
    done = checked(kcat("-Q", "-b", bootstrap, "-t", f"{place[0]}:{place[1]}:{at}", timeout_s=timeout_s))
    match: Any = _ANSWER.search(done.stdout.decode())
    if match is None:
        raise KcatFailed(f"no offset in {done.stdout.decode()!r}")
    return int(match[3])


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None
