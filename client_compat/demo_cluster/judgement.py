"""Which acknowledged records each act (experiment) of the demo kept and lost. They are counted twice: as a consumer receives them, and on
the brokers' disks.

Rule: all counts are computed from files: acknowledgements from the clients' files, and records from the stopped brokers' directories, which
are read with the audit's own reader. The audit checks the same directories.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from client_compat.cluster_mixed import replicas
from client_compat.cluster_mixed.replicas import ReplicasVerdict
from client_compat.demo_cluster.acts import FinishedAct
from client_compat.support.demonstration import Promise
from client_compat.support.load import parts_of
from client_compat.support.places import OFFSET_BITS, SOMEWHERE
from client_compat.support.verdict import AckVerdict
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.tables import Filters, read
from ottla.spark_jobs.verdict import Verdict

SAMPLES_MAX = 8
Value = tuple[int, int]
"""Identifies a record that a client sent: (index of the client, number of the record among those of this client)."""


class Lost(NamedTuple):
    """An acknowledged record that no consumer receives. `at_ms`: the time of the acknowledgement, in wall-clock ms. `held_by`: ids of the
    brokers that have the record on disk. `there_now`: the client and number of the record that is now at its offset, if any."""

    client: str
    number: int
    partition: int | None
    offset: int | None
    at_ms: int
    held_by: tuple[int, ...]
    there_now: str | None

    @property
    def where(self) -> str:
        return "an offset that the client was not told" if self.offset is None else f"partition {self.partition}, offset {self.offset}"


@dataclass(slots=True)
class Judged:
    """A finished act (experiment) of the demo, and the faults that were found in its logs. `acked_ms`: the times of all acknowledgements.
    `lost`: acknowledged records that no consumer receives. `missing`: how many acknowledged records are on no leader's disk."""

    played: FinishedAct
    audit: Verdict
    replicas: ReplicasVerdict
    acked_ms: list[int]
    lost: list[Lost] = field(default_factory=list)
    missing: int = 0

    @property
    def acks(self) -> AckVerdict:
        return self.played.acks

    @property
    def only_on_the_dead(self) -> int:
        """How many lost records are on disk, but only at brokers that were killed and not restarted."""
        return sum(bool(one.held_by) and set(one.held_by) <= set(self.played.dead) for one in self.lost)

    @property
    def differing(self) -> list[str]:
        """Descriptions of the offsets at which the brokers' replicas differ, according to the audit."""
        samples = [sample for one in self.audit.directories for sample in one.rules["replicas"].samples]
        return [f"{one.where}: {one.kind}, {one.evidence['equal_copies']} of {one.evidence['copies']} have the same" for one in samples]


def judge(played: FinishedAct) -> Judged:
    """Audit the logs that a finished act left on the brokers, and compare them with the acknowledgements. Raises OSError if a file cannot
    be read, and any exception of the audit."""
    act, brokers = played.act, played.cluster.brokers
    directories = [broker.directory for broker in brokers]
    verdict = audit(directories, topics=[act.key], replicas=True, engine="duckdb")
    judged = Judged(played, verdict, replicas.compare(directories), [])
    stored = {broker.node_id: on_disk(broker.directory, act.key) for broker in brokers}
    times = [_times(played.load.times_of(client)) for client in range(len(played.load.clients))]
    judged.acked_ms = sorted(at for of_client in times for at in of_client if at)
    leading = [stored[node_id] for node_id in dict.fromkeys(played.leaders)]
    held = {value for values in leading for value in values}
    judged.missing = sum(bool(at) and (client, number) not in held for client, sent in enumerate(times) for number, at in enumerate(sent))
    standing = {place: value for values in leading for value, places in values.items() for place in places}
    for name, number, place in played.acks.losses:
        client = played.load.clients.index(name)
        partition, offset = (None, None) if place == SOMEWHERE else (place >> OFFSET_BITS, place & (1 << OFFSET_BITS) - 1)
        now = None if partition is None or offset is None else standing.get((partition, offset))
        judged.lost.append(
            Lost(
                name,
                number,
                partition,
                offset,
                at_ms=times[client][number],
                held_by=tuple(node_id for node_id, values in stored.items() if (client, number) in values),
                there_now=None if now is None else f"{played.load.clients[now[0]]} {now[1]}",
            )
        )
    judged.lost.sort(key=lambda one: one.at_ms)
    return judged


def on_disk(directory: Path, topic: str) -> Mapping[Value, Sequence[tuple[int, int]]]:
    """Return, for every record of the topic in a broker's directory, its places: (partition, offset), several if the record was stored
    repeatedly."""
    found: dict[Value, list[tuple[int, int]]] = defaultdict(list)
    for batch in read("records", [directory], ["partition", "offset", "value"], Filters(topics=frozenset({topic}))):
        for row in batch.to_pylist():
            found[parts_of(row["value"])].append((row["partition"], row["offset"]))
    return dict(found)


def _times(path: Path) -> array[int]:
    times = array("q")
    times.frombytes(path.read_bytes())
    return times


def promises(safe: Judged, alone: Judged, unclean: Judged) -> list[Promise]:
    """Return the statements that the demo must prove, each with whether it was kept. `safe`, `alone` and `unclean` are the three acts:
    acks=all; acks=1 with a leader that is ahead of its followers; an unclean election."""
    acks = safe.acks
    wrong = acks.wrong_except("lost", "doubled")
    again = f" ({acks.excused} stored again by librdkafka itself, its issue 4953)" if acks.excused else ""
    acknowledged_all = f"acks=all: lost {acks.lost}, doubled {acks.doubled}{again}, otherwise wrong {wrong}, of {acks.acked:,} acknowledged"
    return [
        Promise(acknowledged_all, acks.good),
        Promise(f"acks=all: {_copies(safe.replicas)}; the audit: {safe.audit.headline.lower()}", _equal(safe)),
        Promise(f"acks=1: lost {alone.acks.lost:,} of {alone.acks.acked:,} acknowledged", alone.acks.lost > 0),
        _found(alone, "acks=1"),
        Promise(f"unclean election: lost {unclean.acks.lost:,} of {unclean.acks.acked:,} acknowledged", unclean.acks.lost > 0),
        _found(unclean, "unclean election"),
        Promise(
            f"unclean election: the audit finds that the copies differ ({', '.join(unclean.differing[:1]) or 'it does not'})",
            bool(unclean.differing),
        ),
    ]


def _equal(judged: Judged) -> bool:
    return judged.audit.exit_code == 0 and judged.replicas.good and judged.missing == 0


def _copies(found: ReplicasVerdict) -> str:
    return f"{found.batches:,} batches of {found.partitions} partitions compared on three disks, {found.differ} differ"


def _found(judged: Judged, name: str) -> Promise:
    acks, dead = judged.acks, " and ".join(f"broker {one}'s" for one in judged.played.dead)
    text = f"{name}: on the disks, too, {judged.missing:,} acknowledged records are missing where it is led; {judged.only_on_the_dead:,}"
    return Promise(f"{text} of them are in dead {dead} directory, and nowhere else", acks.lost == judged.missing == judged.only_on_the_dead)
