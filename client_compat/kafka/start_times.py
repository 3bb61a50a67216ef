"""Measures the time and memory of starting a cluster of three brokers: `python -m client_compat.kafka.start_times`.

Directories are formatted beforehand; the cluster is ready when each broker answers clients and reports all three brokers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from client_compat.kafka.cluster import OTTLA, Cluster, Kind, end, seen_at
from client_compat.support import program
from client_compat.support.brokers import BrokerProcess

BROKERS, RUNS = 3, 5
POLL_S = 0.005
MEBIBYTE = 1024 * 1024


class Start(NamedTuple):
    """The cost of one start: wall time, CPU time and resident memory of all processes together."""

    seconds: float
    cpu_seconds: float
    rss_bytes: int


def processes(directory: Path, kind: Kind) -> Start:
    """Start a controller and three brokers, each as a process, and return what the start cost. Raises `BrokerFailed` if a node fails, or
    `KafkaMissing` if Apache Kafka is required and not available."""
    cluster = Cluster(directory, (kind,) * BROKERS, controller_kind=kind)
    cluster.format()
    nodes = [node.process for node in cluster.nodes]
    return _measured(cluster.launch, nodes)


def one_process(directory: Path) -> Start:
    """Start `ottla serve --brokers 3`, a whole cluster in one process, which formats its own directory; return what the start cost. Raises
    `BrokerFailed` if the process ends."""
    port_file = directory.with_name("ports")
    argv = [*OTTLA, "serve", "--brokers", str(BROKERS), "--data-dir", str(directory), "--port", "0", "--port-file", str(port_file)]
    node = BrokerProcess(argv, 0, directory.with_name("log"))

    def launch() -> None:
        node.spawn()
        while len(ports := port_file.read_text().split() if port_file.exists() else []) < BROKERS:
            node.check_alive()
            time.sleep(POLL_S)
        for port in ports:
            while len(seen_at(int(port)).brokers) < BROKERS:
                node.check_alive()

    return _measured(launch, [node])


def _measured(launch: Callable[[], None], nodes: list[BrokerProcess]) -> Start:
    try:
        began = time.perf_counter()
        launch()
        seconds = time.perf_counter() - began
        used = [node.usage() for node in nodes]
    finally:
        end(nodes)
    return Start(seconds, sum(one.cpu_seconds for one in used), sum(one.rss_bytes for one in used))


def main(
    *,
    runs: Annotated[int, typer.Option(min=1, help="Starts of each.")] = RUNS,
    kafka: Annotated[bool, typer.Option("--kafka", help="Three brokers and a controller of Apache Kafka, too.")] = False,
) -> None:
    """Measure starts of three brokers, alternating between the kinds, and print their medians."""
    kinds: dict[str, Callable[[Path], Start]] = {
        "ottla serve --brokers 3": one_process,
        "a controller and three brokers of Ottla": lambda directory: processes(directory, Kind.OTTLA),
    }
    if kafka:
        kinds["a controller and three brokers of Apache Kafka"] = lambda directory: processes(directory, Kind.KAFKA)
    found: dict[str, list[Start]] = {what: [] for what in kinds}
    for _ in range(runs):
        for what, start in kinds.items():
            with tempfile.TemporaryDirectory(prefix="start-") as directory:
                found[what].append(start(Path(directory) / "data"))
    for what, starts in found.items():
        seconds, cpu, memory = (statistics.median(numbers) for numbers in zip(*starts, strict=True))
        spread = f"{min(starts).seconds:.2f} to {max(starts).seconds:.2f}"
        took = f"median {seconds:.2f} s of {runs} ({spread}) until they serve and know each other"
        print(f"{what}: {took}, of the processor {cpu:.2f} s, memory {memory / MEBIBYTE:.0f} MB")


if __name__ == "__main__":
    program.run(main)
