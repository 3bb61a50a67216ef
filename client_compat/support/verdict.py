"""Compares the records of a topic with the acknowledgements that the clients of a load received."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from client_compat.support.counted import Counted
from client_compat.support.load import Load, parts_of
from client_compat.support.places import GIVEN_UP, NOT_ACKED, REFUSED, SOMEWHERE, describe_place, place
from client_compat.support.reading import read_with_aiokafka


class Double(NamedTuple):
    """A value that is stored more than once, and the positions of its records."""

    client: str
    number: int
    places: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.client} {self.number} stands at {', '.join(map(describe_place, self.places))}"


@dataclass(slots=True)
class AckVerdict(Counted):
    """The result of comparing acknowledgements with the log: for each kind of difference, the number of values."""

    JUDGED = "acked"
    WRONG = ("lost", "doubled", "misplaced", "reordered", "refused", "unanswered", "foreign")
    NOTED = ("in_log", "given_up", "excused")
    acked: int = 0
    in_log: int = 0
    lost: int = 0
    doubled: int = 0
    misplaced: int = 0
    reordered: int = 0
    refused: int = 0
    unanswered: int = 0
    foreign: int = 0
    given_up: int = 0
    """The number of values that a client gave up without a response, because it could not continue. This is not a broker's fault."""
    excused: int = 0
    """The number of values that a client itself stored twice, under two epochs of its producer id. This is not a broker's fault."""
    doubles: list[Double] = field(default_factory=list)
    losses: list[tuple[str, int, int]] = field(default_factory=list)
    """The acknowledged values that are not in the log: (client, number, acknowledged position)."""

    def excuse(self, double: Double) -> None:
        """Count `double`, a value that is stored more than once, as duplicated by its client, and no longer by the broker."""
        self.doubles.remove(double)
        self.doubled -= 1
        self.excused += 1
        if str(double) in self.samples:
            self.samples.remove(str(double))


def _acknowledged(load: Load) -> list[array[int]]:
    acks = []
    for client in range(len(load.clients)):
        places = array("q")
        places.frombytes(load.acks_of(client).read_bytes())
        acks.append(places)
    return acks


def judge(load: Load, partitions: int) -> AckVerdict:
    """Consume the topic, compare its records with the clients' acknowledgements, and return the counts of differences. Each acknowledged
    value must be stored once, at the acknowledged position. Raises `RunFailed` if the topic cannot be read to its end."""
    verdict, acknowledged = AckVerdict(), _acknowledged(load)
    found: list[dict[int, list[int]]] = [{} for _ in load.clients]
    last: dict[tuple[int, int], int] = {}
    for partition, offset, value in read_with_aiokafka(load.bootstrap, load.topic, partitions, "read_uncommitted"):
        verdict.in_log += 1
        client, number = parts_of(value)
        if client >= len(load.clients) or number >= len(acknowledged[client]):
            verdict.foreign += 1
            verdict.note(f"partition {partition} offset {offset} holds a value nobody sent: {value[:40]!r}")
            continue
        copies = found[client].setdefault(number, [])
        if not copies and number < last.get((client, partition), -1):
            verdict.reordered += 1
            verdict.note(f"{load.clients[client]} {number} at partition {partition} offset {offset} came after a later one")
        last[client, partition] = max(number, last.get((client, partition), -1))
        copies.append(place(partition, offset))
    for client, places in enumerate(acknowledged):
        compare(verdict, load.clients[client], places, found[client])
    return verdict


def compare(verdict: AckVerdict, client: str, places: array[int], found: dict[int, list[int]]) -> None:
    for number, acked in enumerate(places):
        copies = found.get(number, [])
        if len(copies) > 1:
            double = Double(client, number, tuple(copies))
            verdict.doubled += 1
            verdict.doubles.append(double)
            verdict.note(str(double))
        if acked == REFUSED:
            verdict.refused += 1
        elif acked == NOT_ACKED:
            verdict.unanswered += 1
        elif acked == GIVEN_UP:
            verdict.given_up += 1
        elif not copies:
            verdict.lost += 1
            verdict.losses.append((client, number, acked))
            verdict.note(f"{client} {number}, acknowledged{'' if acked == SOMEWHERE else f' at {describe_place(acked)}'}, is lost")
        elif acked not in (SOMEWHERE, *copies):
            verdict.misplaced += 1
            verdict.note(f"{client} {number}, acknowledged at {describe_place(acked)}, stands at {', '.join(map(describe_place, copies))}")
        verdict.acked += acked not in (REFUSED, NOT_ACKED, GIVEN_UP)
