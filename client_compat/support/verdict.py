"""The log as consumed, against what the clients were told."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition

from client_compat.support.load import CLIENTS, NOT_ACKED, OFFSET_BITS, REFUSED, Load

FETCH_MS = 500
RECORDS_AT_ONCE = 10_000
SAMPLES_MAX = 10


@dataclass(slots=True)
class Verdict:
    """Counts of values; `samples` names the first that are wrong."""

    acked: int = 0
    in_log: int = 0
    lost: int = 0
    doubled: int = 0
    misplaced: int = 0
    reordered: int = 0
    refused: int = 0
    unanswered: int = 0
    foreign: int = 0
    samples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        wrong = (self.lost, self.doubled, self.misplaced, self.reordered, self.refused, self.unanswered, self.foreign)
        return self.acked > 0 and not any(wrong)

    def note(self, text: str) -> None:
        if len(self.samples) < SAMPLES_MAX:
            self.samples.append(text)


async def _consume(bootstrap: str, topic: str, partitions: int) -> list[tuple[int, int, bytes]]:
    """Every record to the ends of the log: (partition, offset, value), by offset within a partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    taken: list[tuple[int, int, bytes]] = []
    async with consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        ends = await consumer.end_offsets(sorted(consumer.assignment()))
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for tp, records in (await consumer.getmany(timeout_ms=FETCH_MS, max_records=RECORDS_AT_ONCE)).items():
                taken.extend((tp.partition, record.offset, record.value or b"") for record in records)
    return taken


def _told(load: Load) -> list[array[int]]:
    acks = []
    for client in range(len(CLIENTS)):
        places = array("q")
        places.frombytes(load.acks_of(client).read_bytes())
        acks.append(places)
    return acks


def judge(load: Load, partitions: int) -> Verdict:
    """Consume the topic and compare. Each value's copies must be one, at the offset its client was told."""
    verdict, told = Verdict(), _told(load)
    found: list[dict[int, list[int]]] = [{} for _ in CLIENTS]
    last: dict[tuple[int, int], int] = {}
    for partition, offset, value in asyncio.run(_consume(load.bootstrap, load.topic, partitions)):
        verdict.in_log += 1
        client, number = (int(part) for part in value.split(b":", 2)[:2])
        if client >= len(CLIENTS) or number >= len(told[client]):
            verdict.foreign += 1
            verdict.note(f"partition {partition} offset {offset} holds a value nobody sent: {value[:40]!r}")
            continue
        copies = found[client].setdefault(number, [])
        if not copies and number < last.get((client, partition), -1):
            verdict.reordered += 1
            verdict.note(f"{CLIENTS[client]} {number} at partition {partition} offset {offset} came after a later one")
        last[client, partition] = max(number, last.get((client, partition), -1))
        copies.append(partition << OFFSET_BITS | offset)
    for client, places in enumerate(told):
        compare(verdict, CLIENTS[client], places, found[client])
    return verdict


def compare(verdict: Verdict, client: str, places: array[int], found: dict[int, list[int]]) -> None:
    for number, place in enumerate(places):
        copies = found.get(number, [])
        if len(copies) > 1:
            verdict.doubled += 1
            verdict.note(f"{client} {number} stands at {', '.join(_names(copies))}")
        if place == REFUSED:
            verdict.refused += 1
        elif place == NOT_ACKED:
            verdict.unanswered += 1
        elif not copies:
            verdict.lost += 1
            verdict.note(f"{client} {number}, acknowledged at {next(_names([place]))}, is lost")
        elif place not in copies:
            verdict.misplaced += 1
            verdict.note(f"{client} {number}, acknowledged at {next(_names([place]))}, stands at {', '.join(_names(copies))}")
        verdict.acked += place >= 0


def _names(places: list[int]) -> Iterator[str]:
    for place in places:
        yield f"partition {place >> OFFSET_BITS} offset {place & (1 << OFFSET_BITS) - 1}"
