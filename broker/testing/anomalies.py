"""Compares what clients sent and received with the logs, and finds the anomalies that are defined by Jepsen's Kafka workload
(jepsen.tests.kafka): duplicates, lost records, wrong order, reads of aborted records.

Rules:
- All functions are pure: their input is a recorded history and the records of the logs.
- Records are identified by a function that the caller chooses, by default by value. The identity must be unique for each record that is
  meant to be written once.
- Only proven anomalies are reported. For example, a record without an acknowledgement may be in the log or not: neither is an anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from ottla.broker.testing.contents import Stored, Visibility
from ottla.broker.testing.history import KeyValue, Read, Send

Identity = Callable[[bytes | None, bytes | None], Hashable]
"""A function that returns a record's identity, given its key and value. Two records with the same identity count as duplicates; a record
with the identity None is not judged."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An anomaly, such as a lost or duplicated record. `kind` is Jepsen's name for it; `says` describes it in one sentence. The evidence:
    `stored` are the records in the log, `sends` all attempts to send them, `reads` the Fetch responses that contain them."""

    kind: str
    says: str
    stored: tuple[Stored, ...] = ()
    sends: tuple[Send, ...] = ()
    reads: tuple[Read, ...] = ()


@dataclass(slots=True)
class Observations:
    """The input of the search for anomalies: what clients sent and read, and the records `stored` in the logs.

    `sends` are in the order in which the broker handled them. `begins` has each partition's log start offset: a record before it counts as
    deleted, not lost. A missing record of a `compacted` topic counts as deleted, too.
    """

    sends: Collection[Send]
    reads: Collection[Read]
    stored: Collection[Stored]
    identity: Identity
    begins: dict[tuple[str, int], int] = field(default_factory=dict)
    compacted: Collection[str] = frozenset()
    _sends_of: dict[Hashable, dict[int, Send]] | None = field(default=None, init=False, repr=False)

    def sends_of(self, identity: Hashable) -> tuple[Send, ...]:
        """Return all attempts to send the record with this identity, in the order in which the broker handled them."""
        if self._sends_of is None:  # built only if there is an anomaly
            self._sends_of = defaultdict(dict)
            for number, send in enumerate(self.sends):
                for record in send.records:
                    self._sends_of[self.identity(*record)][number] = send
        return tuple(self._sends_of.get(identity, {}).values())


def judge(seen: Observations, expected: Iterable[Hashable] | None = None) -> list[Anomaly]:
    """Return all anomalies that a comparison of the clients' history with the logs shows. `expected`: the identities of the records that
    must be readable, each exactly once, and no others; None: any records may be readable."""
    return [
        *_duplicates(seen),
        *_lost_writes(seen),
        *_inconsistent_offsets(seen),
        *_aborted_reads(seen),
        *_disorder(seen),
        *(() if expected is None else _not_as_expected(seen, set(expected))),
    ]


def by_value(_key: bytes | None, value: bytes | None) -> Hashable:
    """Return a record's value as its identity. It is meant for the argument `by` of functions such as `assert_exactly_once`."""
    return value


def by_key(key: bytes | None, _value: bytes | None) -> Hashable:
    """Return a record's key as its identity. It is meant for the argument `by` of functions such as `assert_exactly_once`."""
    return key


def _readable(seen: Observations) -> dict[Hashable, list[Stored]]:
    found: dict[Hashable, list[Stored]] = defaultdict(list)
    for stored in seen.stored:
        if stored.outcome.readable and (identity := seen.identity(stored.key, stored.value)) is not None:
            found[identity].append(stored)
    return found


def _duplicates(seen: Observations) -> Iterator[Anomaly]:
    """Yield an anomaly `duplicate` for each record that is readable at more than one offset."""
    for identity, places in _readable(seen).items():
        if len(places) > 1:
            where = ", ".join(stored.where for stored in places)
            yield Anomaly(
                "duplicate", f"{_shown(identity)} is readable {len(places)} times: {where}", tuple(places), seen.sends_of(identity)
            )


def _lost_writes(seen: Observations) -> Iterator[Anomaly]:
    """Yield an anomaly `lost-write` for each acknowledged record that is not in the log at its acknowledged offset."""
    at = {(stored.topic, stored.partition, stored.offset): stored for stored in seen.stored}
    for send in seen.sends:
        if not send.acked or send.offset < seen.begins.get((send.topic, send.partition), 0):
            continue
        for delta, record in enumerate(send.records):
            found = at.get((send.topic, send.partition, send.offset + delta))
            if found is None and send.topic in seen.compacted:
                continue
            if found is None or (found.key, found.value) != record:
                place = f"{send.topic}-{send.partition}@{send.offset + delta}"
                there = "nothing" if found is None else _shown(seen.identity(found.key, found.value))
                yield Anomaly(
                    "lost-write",
                    f"{_shown(seen.identity(*record))} was acknowledged at {place}, where there is {there}",
                    () if found is None else (found,),
                    (send,),
                )


def _inconsistent_offsets(seen: Observations) -> Iterator[Anomaly]:
    """Yield an anomaly `inconsistent-offsets` for each offset at which consumers have read different records."""
    read_at: dict[tuple[str, int, int], tuple[KeyValue, Read]] = {}
    for read in seen.reads:
        for _, records in read.batches:
            for offset, record in records:
                place = (read.topic, read.partition, offset)
                first, by = read_at.setdefault(place, (record, read))
                if first != record:
                    text = f"{read.topic}-{read.partition}@{offset} was read as {_shown(first[1])} and as {_shown(record[1])}"
                    yield Anomaly("inconsistent-offsets", text, reads=(by, read))


def _aborted_reads(seen: Observations) -> Iterator[Anomaly]:
    """Yield an anomaly `G1a` (Jepsen's name for an aborted read) for each record of an aborted transaction that a read_committed consumer
    received in a Fetch response, if the response did not list that transaction as aborted."""
    aborted = {(each.topic, each.partition, each.offset): each for each in seen.stored if each.outcome is Visibility.ABORTED}
    for read in seen.reads:
        for header, records in read.batches if read.committed_only else ():
            for offset, _ in records:
                stored = aborted.get((read.topic, read.partition, offset))
                if stored is not None and not any(pid == header.producer_id and first <= offset for pid, first in read.aborted):
                    text = f"{stored.where} belongs to an aborted transaction, which the response to a read_committed consumer did not list"
                    yield Anomaly("G1a", text, (stored,), reads=(read,))


def _disorder(seen: Observations) -> Iterator[Anomaly]:
    """Yield an anomaly `nonmonotonic-send` for each pair of records that one producer first sent in one order, but that are stored in the
    reverse order."""
    landed: dict[tuple[str, int, Hashable], Stored] = {}
    for stored in seen.stored:
        if stored.outcome.readable:
            landed.setdefault((stored.topic, stored.partition, seen.identity(stored.key, stored.value)), stored)
    latest: dict[tuple[Hashable, str, int], tuple[int, Send]] = {}
    tried: set[tuple[Hashable, str, int, Hashable]] = set()
    for send in seen.sends:
        for record in send.records:
            identity = seen.identity(*record)
            there = landed.get((send.topic, send.partition, identity))
            if identity is None or there is None:
                continue
            session = _session(send, send.client_id, there.outcome)
            place = (session, send.topic, send.partition)
            if session != _session(there, send.client_id, there.outcome) or (*place, identity) in tried:
                continue
            tried.add((*place, identity))
            before = latest.get(place)
            if before is not None and there.offset < before[0]:
                text = (
                    f"{_shown(identity)} was first sent after {send.topic}-{send.partition}@{before[0]}, but is stored before it, "
                    f"at {there.offset}"
                )
                yield Anomaly("nonmonotonic-send", text, sends=(before[1], *seen.sends_of(identity)))
            if before is None or there.offset > before[0]:
                latest[place] = (there.offset, send)


def _session(writer: Send | Stored, client_id: str, outcome: Visibility) -> Hashable:
    """Return a value that identifies the writer of a record. Records are checked for order only if their writers have equal values.

    For a record of a committed transaction, the value contains the producer epoch, because records that were aborted in an earlier epoch
    may be sent again in another order. For other records, the value is the producer id, or the client id if there is no producer id.
    """
    if writer.producer_id < 0:
        return client_id
    return (writer.producer_id, writer.producer_epoch) if outcome is Visibility.COMMITTED else writer.producer_id


def _not_as_expected(seen: Observations, expected: set[Hashable]) -> Iterator[Anomaly]:
    """Yield an anomaly `missing` for each expected record that is not readable, and an anomaly `unexpected` for each readable record that
    was not expected."""
    readable = _readable(seen)
    for identity in sorted(expected - readable.keys(), key=repr):
        hidden = tuple(each for each in seen.stored if seen.identity(each.key, each.value) == identity)
        why = f"; it is stored {hidden[0].outcome.value}" if hidden else ""
        yield Anomaly("missing", f"{_shown(identity)} was expected and cannot be read{why}", hidden, seen.sends_of(identity))
    for identity in sorted(readable.keys() - expected, key=repr):
        yield Anomaly("unexpected", f"{_shown(identity)} was not expected", tuple(readable[identity]), seen.sends_of(identity))


def _shown(identity: Hashable) -> str:
    text = identity.decode(errors="replace") if isinstance(identity, bytes) else str(identity)
    return text if len(text) <= 60 else f"{text[:57]}..."
