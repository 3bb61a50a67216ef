"""Simulates days of a small busy cluster in minutes (`make soak`), and checks that its nodes hold no more objects after a week than after a
day.

Three brokers and a controller run on clocks that are advanced in ticks. In each tick topics come and go, and clients of four kinds (see
`soak_clients`) do some work under new names. In between, sessions, transactions, producer ids, transactional ids and offsets expire,
segments roll, are deleted or compacted, snapshots are written, and the nodes restart in turn.

Rules:
- All state expires within `FORGOTTEN_HOURS`, so the first day already has as much of everything as any other day.
- All days are alike. Each ends with a pause, in which deleted files are removed and sessions end, and then with the count.
- A node may hold more objects of a kind than after the first day by the fraction GROWTH, or by a few if it holds few.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from ottla.broker.app import Broker
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.heap import configure_malloc
from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.testing.in_process import InProcessBroker
from tests.support.soak_clients import SoakClients

N = TypeVar("N", Broker, ControllerNode)

WEEK_DAYS, TICKS_A_DAY = 7, 144
SHORT_DAYS, SHORT_TICKS = 2, 12
FORGOTTEN_HOURS: Final = 3
_FORGOTTEN_MS: Final = FORGOTTEN_HOURS * 3_600_000
GROWTH: Final = 0.05
FEW: Final = 5
BY_CHANCE: Final = {"files": 20, "KiB of files": 30, "segments": 10, "open segments": 10, "KiB of memory": 5_120}
"""How much more of each kind a node may hold at the end of a day by chance: a restart may close a segment a moment before or after its last
record. Resident memory has an allowance too, because it also has what the allocators keep, and Python's table of interned strings: 0.9 MiB,
allocated anew whenever the names of files have filled it. Python's blocks and malloc's bytes, which count memory in use, have no allowance.
"""
METADATA: Final = "__cluster_metadata-0"
REST_STEPS, REST_STEP = 6, timedelta(minutes=10)
KEPT_TOPICS: Final = 3
"""The number of temporary topics that exist at the same time, beside the permanent topics EVENTS and TABLE."""
EVENTS, TABLE, PARTITIONS = "events", "table", 3
SETTINGS: Final[Mapping[str, str | float]] = {
    "replica.fetch.backoff.ms": 20,  # a jump of the clocks is a timeout of every pending fetch
    "log.segment.delete.delay.ms": 1_000,
    "log.retention.ms": _FORGOTTEN_MS,
    "log.roll.ms": _FORGOTTEN_MS // 3,
    "log.cleaner.delete.retention.ms": _FORGOTTEN_MS,
    "log.cleaner.min.cleanable.ratio": 0.01,  # at the end of each day everything is compacted, so all days have the same segments
    "offsets.retention.minutes": FORGOTTEN_HOURS * 60,
    "producer.id.expiration.ms": _FORGOTTEN_MS,
    "transactional.id.expiration.ms": _FORGOTTEN_MS,
    "metadata.log.max.record.bytes.between.snapshots": 20_000,
    "metadata.max.retention.ms": _FORGOTTEN_MS,
    "metadata.log.segment.ms": _FORGOTTEN_MS // 3,
}

Held = dict[str, int]
"""How many objects of each kind one process holds, by the kind's name."""


class Soak:
    """A cluster and its clients. `held` counts the objects that each node holds."""

    def __init__(self, cluster: InProcessCluster, ticks_a_day: int) -> None:
        self._cluster = cluster
        self._clients = SoakClients(cluster)
        self._ticks_a_day = ticks_a_day
        self._ticks = 0
        cluster.topics.create(EVENTS, PARTITIONS)
        cluster.topics.create(TABLE, PARTITIONS, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.1})

    def day(self) -> None:
        """Simulate one day: ticks with work of all clients, and then a pause."""
        for tick in range(self._ticks_a_day):
            self._tick(tick)
        for _ in range(REST_STEPS):
            self._cluster.clock.advance(REST_STEP)
            self._wait_in_sync()
        self._cluster.wait_until(lambda: not any(map(_has_deleted, self._cluster.brokers.values())), "deleted files are removed")

    def _tick(self, tick: int) -> None:
        number, cluster, clients = self._ticks, self._cluster, self._clients
        self._ticks += 1
        topic = cluster.topics.create(f"visits-{number}", 2)
        if number >= KEPT_TOPICS:
            clients.delete_topic(f"visits-{number - KEPT_TOPICS}")
        cluster.topics.configure(EVENTS, {"retention.ms": _FORGOTTEN_MS - number % 2})
        clients.idempotent_producer(EVENTS, PARTITIONS, [None])
        clients.idempotent_producer(TABLE, PARTITIONS, [b"key %d" % key for key in range(10)])
        clients.idempotent_producer(topic, 2, [None])
        clients.transaction(f"payment-{number}", topic, ends=number % 3 != 0)
        clients.classic_member(f"classic-{number}", EVENTS, leaves=number % 2 == 0)
        clients.consumer_member(f"consumer-{number}", EVENTS, leaves=number % 2 == 0)
        cluster.clock.advance(timedelta(days=1) / self._ticks_a_day)
        if tick % (self._ticks_a_day // 4) == 1:  # three brokers and the controller, each once a day
            self._restart(4 * tick // self._ticks_a_day + 1)

    def _restart(self, n: int) -> None:
        if n in self._cluster.brokers:
            self._cluster.restart(n, kill=n == 2)
        else:
            self._cluster.controller.restart()
        self._wait_in_sync()

    def _wait_in_sync(self) -> None:
        for topic in self._cluster.topic_names:
            self._cluster.wait_in_sync(topic)

    def held(self) -> dict[str, Held]:
        """Return the number of live objects of each type, for each node and for the process in which all nodes run."""
        gc.collect()
        found = {f"broker {number}": broker.call(_of_broker) for number, broker in self._cluster.brokers.items()}
        found["controller"] = self._cluster.controller.call(_of_controller)
        return {**found, "process": _of_process()}


def _has_deleted(broker: InProcessBroker) -> bool:
    """Return whether files of deleted segments or topics are left. Those of the metadata log stay for a minute."""
    found = (path for path in broker.data_dir.rglob("*") if ".deleted" in path.name or path.name.endswith("-delete"))
    return any(path.parent.name != METADATA for path in found)


def _of_broker(broker: Broker) -> Held:
    services, partitions = broker.services, list(broker.services.partitions)
    machines = list(services.groups.machines())
    shards = services.txns.shards.serving()
    return {
        **_of_node(broker),
        **_of_image(services.topics.image),
        "connections": broker.connection_count,
        "waiting requests": broker.waiting_requests + services.fetch_purgatory.waiting,
        "fetch sessions": len(services.fetch_sessions),
        "partitions": len(partitions),
        "segments": sum(len(each.log.segments) for each in partitions),
        "producers": sum(len(each.log.producer_state) for each in partitions),
        "groups": sum(len(each.groups) for each in machines),
        "offsets": sum(sum(1 for _ in each.offsets.committed) for each in machines),
        "transactions": sum(len(each.machine.transactions) for each in shards),
        "topics of the traffic": len(services.traffic.to_consumers.by_topic) + len(services.traffic.to_followers.by_topic),
    }


def _of_controller(node: ControllerNode) -> Held:
    return {**_of_node(node), **_of_image(node.role.newest.image)}


def _of_node(node: Broker | ControllerNode) -> Held:
    files = [path for path in node.log_dir.path.rglob("*") if path.is_file()]
    return {
        "tasks": len(asyncio.all_tasks()),
        "timers": len(node.timers),
        "files": len(files),
        "KiB of files": sum(_size(path) for path in files) // 1024,
    }


def _of_image(image: MetadataImage) -> Held:
    return {"topics": len(image.topics), "configurations": len(image.configs)}


def _of_process() -> Held:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc keeps more freed memory with each day, up to 7 of 60 MiB in a week
        libc.malloc_trim(0)
    open_files = list(_open_files())
    segments = sum(path.suffix == ".log" for path in open_files)
    return {
        "open segments": segments,
        "other descriptors": len(open_files) - segments,
        "objects": len(gc.get_objects()),
        "blocks of Python": sys.getallocatedblocks(),
        "KiB of malloc": _allocated_bytes(libc) // 1024,
        "KiB of memory": _resident_bytes() // 1024,
    }


def _open_files() -> Iterator[Path]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a node has just closed it
            yield descriptor.readlink()


class _Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


def _allocated_bytes(libc: ctypes.CDLL) -> int:
    """Return the bytes that malloc has allocated, without Python's own blocks; 0 if glibc is older than 2.33."""
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = _Mallinfo
    found = libc.mallinfo2()
    return int(found.uordblks) + int(found.hblkhd)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has just been deleted
        return 0


def grown(first: Mapping[str, Held], last: Mapping[str, Held], growth: float = GROWTH, few: int = FEW) -> Iterator[str]:
    """Yield a line for each kind of object whose count on a node has grown by more than the fraction `growth` and by more than `few`."""
    for node, held in last.items():
        for kind, count in held.items():
            before = first[node][kind]
            if count > before * (1 + growth) and count > before + max(few, BY_CHANCE.get(kind, 0)):
                yield f"{node}: {kind} {before} -> {count}"


def objects_by_type() -> Counter[str]:
    """Return the number of live objects of each type, to find what grows."""
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


def live(days: int, ticks_a_day: int, print_line: Callable[[str], object]) -> tuple[dict[str, Held], dict[str, Held]]:
    """Run a cluster for `days` simulated days; return the counts of its nodes after the first and after the last day."""
    with InProcessCluster(3, settings=SETTINGS) as cluster:
        soak = Soak(cluster, ticks_a_day)
        soak.day()
        first, types = soak.held(), objects_by_type()
        for day in range(2, days + 1):
            began_s = time.monotonic()
            soak.day()
            print_line(f"day {day}: {time.monotonic() - began_s:.0f} s; {'; '.join(grown(first, soak.held())) or 'nothing grows'}")
        last, more = soak.held(), objects_by_type() - types
        print_line("Types with the most new objects: " + ", ".join(f"{name} {count}" for name, count in more.most_common(12)))
        return first, last


def table(first: Mapping[str, Held], last: Mapping[str, Held]) -> str:
    """Return a table of all object counts, after the first day and at the end."""
    rows = [f"{'':12}{'':32}{'first day':>12}{'end':>12}"]
    for node, held in first.items():
        rows += [f"{node:12}{kind:32}{count:>12,}{last[node][kind]:>12,}" for kind, count in held.items()]
    return "\n".join(rows)


def main() -> int:
    """Run `make soak`; return the exit code 1 if a node holds more objects than permitted."""
    parser = argparse.ArgumentParser(description="A week of a small busy cluster on movable clocks")
    parser.add_argument("--days", type=int, default=WEEK_DAYS)
    parser.add_argument("--ticks", type=int, default=TICKS_A_DAY, help="ticks of a day, at least 8")
    given = parser.parse_args()
    configure_malloc()  # as `ottla serve` does
    logging.disable(logging.ERROR)  # at every jump of the clocks, nodes log that others did not answer for that long
    first, last = live(given.days, given.ticks, lambda line: print(line, flush=True))
    print(table(first, last))
    found = list(grown(first, last))
    print("\n".join(["These grew:", *found]) if found else f"Nothing grew by more than {GROWTH:.0%}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
