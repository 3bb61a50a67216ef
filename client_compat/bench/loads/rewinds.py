"""Times of marks (a broker's state, saved under a name), rewinds (returns to a mark) and forks (copies of a data directory that share its
closed segments) by size, beside a copy of the directory and beside a fresh broker that is filled again.

Rules:
- Marks and rewinds are measured over HTTP, the fork and the copy as commands. Each is measured for as long as its user waits.
- Before each rewind a megabyte is written, and then the broker has time to make its next copy, as during a test.
- Segments have a megabyte, so that more than one megabyte per topic leaves closed segments, which a fork shares.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from client_compat.bench.loads.topics import connect, create
from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.support.admin_port import AdminPort
from client_compat.support.ports import free_port
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch

SEEDED, MARKED, REWOUND, FORKED, COPIED = "fresh broker and seeding", "mark", "rewind", "ottla fork", "cp -r"
START_TIMEOUT_S = 60.0
COPY_S = 1.0
PRODUCE_VERSION = 9
RECORD = SimpleRecord(None, bytes(1_000), 1_700_000_000_000)


def by_size(site: Site, *, topics: int, megabytes: int, rewinds: int = 5) -> Values:
    """Fill a new broker with `megabytes` MB in `topics` topics, mark its state, return to this mark `rewinds` times, and fork and copy its
    directory. Return the milliseconds of each operation (for the returns to the mark, the median). Raises `LoadFailed` if a record is
    rejected or a command fails."""
    names, admin = [f"bench-{number}" for number in range(topics)], AdminPort(free_port())
    with site.fresh("rewinds") as broker:
        broker.argv += [*admin.options, "--set", f"log.segment.bytes={1 << 20}"]
        data_dir = Path(broker.argv[broker.argv.index("--data-dir") + 1])

        def seed() -> None:
            broker.start(START_TIMEOUT_S)
            with connect(broker.bootstrap) as client:
                create(client, names, 1, by_request=True)
            _produce(broker.bootstrap, names, megabytes)

        values = {SEEDED: _ms(seed)}
        admin.wait_ready()
        values[MARKED] = _ms(lambda: admin.mark("seeded"))
        times = []
        for _ in range(rewinds):
            _produce(broker.bootstrap, names, 1)
            time.sleep(COPY_S)
            times.append(_ms(lambda: admin.rewind("seeded")))
        values[REWOUND] = statistics.median(times)
        fork, copy = data_dir.with_name("fork"), data_dir.with_name("copy")
        values[FORKED] = _ms(lambda: _run([sys.executable, "-m", "ottla", "fork", str(data_dir), str(fork)]))
        values[COPIED] = _ms(lambda: _run(["cp", "-r", str(data_dir), str(copy)]))
        for made in (fork, copy):
            shutil.rmtree(made)
    return values


def _produce(bootstrap: str, names: list[str], megabytes: int) -> None:
    batch = build_batch([RECORD] * 1_000)
    with connect(bootstrap) as client:
        for number in range(megabytes):
            data = TopicProduceData(names[number % len(names)], partition_data=[PartitionProduceData(0, batch)])
            answer = client.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)
            code = answer.responses[0].partition_responses[0].error_code
            if code != ErrorCode.NONE:
                raise LoadFailed(f"Produce answers {ErrorCode(code).name}")


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadFailed(f"{argv}: {done.stderr[-300:]}")


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000
