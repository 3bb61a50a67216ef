"""`make bench-gateway`: the cost of `ottla gateway`, beside toxiproxy and beside no proxy, in front of the same broker.

Rules:
- One broker serves all three. It has a second listener that advertises toxiproxy's address, because toxiproxy, unlike the gateway, does not
  change the broker addresses in responses.
- All three are measured in turns, in random order (`run`), so that a slow phase of the machine affects each of them.
- CPU time and memory are those of the proxy's process; without a proxy, those of the broker.
- Without toxiproxy, the other two are measured, and the reason is printed.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from client_compat.bench import report
from client_compat.bench.cases import QUICK_WARM_UP_RECORDS, WARM_UP_RECORDS, warm_up
from client_compat.bench.loads import connections, latency, throughput
from client_compat.bench.model import Benchmark, Figure, Peer, Results, Site, Values
from client_compat.bench.peers import go_programs
from client_compat.bench.peers.secured import OTTLA
from client_compat.bench.peers.shipped import KAFKA_JVM, KAFKA_SETTINGS
from client_compat.bench.run import START_TIMEOUT_S, lent, side_by_side
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support import brokers, program
from client_compat.support.brokers import HOST, BrokerProcess
from client_compat.support.ports import free_port

NONE, GATEWAY, TOXIPROXY = "no proxy", "gateway", "toxiproxy"
TOXIPROXY_SERVER = "github.com/Shopify/toxiproxy/v2/cmd/server"
ADDED = {latency.P50: "added p50", latency.P99: "added p99"}
PRODUCE_CPU, CONSUME_CPU = "produce, CPU", "consume, CPU"
MEMORY, MEMORY_AFTER = "a new process", "after the throughput"
IDLE = 1_000
ADDED_P50_MAX_MS, OF_TOXIPROXY_MIN, MEMORY_MAX_MB = 0.1, 0.8, 40
BROKERS = ("kafka", "ottla")


def megabytes(site: Site, *, record_bytes: int, records: int) -> Values:
    """Measure throughput through librdkafka, in megabytes of record values per second, and the CPU time in milliseconds per megabyte."""
    values = throughput.through_librdkafka(site, record_bytes=record_bytes, partitions=1, records=records)
    rates = {name: values[name] * record_bytes / 1e6 for name in (throughput.PRODUCED, throughput.CONSUMED)}
    cpu = {PRODUCE_CPU: values[throughput.PRODUCE_CPU], CONSUME_CPU: values[throughput.CONSUME_CPU]}
    return rates | {name: seconds * 1e3 / record_bytes for name, seconds in cpu.items()}


def memory(site: Site, *, count: int) -> Values:
    """Measure the resident memory of the gateway's or toxiproxy's process with `count` idle connections, in MB. Two processes are measured:
    the one that has served the other cases, and a newly started one. Without a proxy, only the broker is measured."""
    values = {MEMORY_AFTER: _resident(site.broker, count)}
    if site.peer.name != NONE:
        with site.fresh("fresh") as broker:
            broker.start()
            values[MEMORY] = _resident(broker, count)
    return values


def _resident(broker: BrokerProcess, count: int) -> float:
    with ExitStack() as stack:
        connections.open_idle(broker.bootstrap, count, stack)
        return broker.usage().rss_bytes / 1e6


def _throughput(label: str, record_bytes: int, records: int) -> Benchmark:
    figures = (
        Figure(throughput.PRODUCED, "MB/s", more_is_better=True),
        Figure(throughput.CONSUMED, "MB/s", more_is_better=True),
        Figure(PRODUCE_CPU, "ms a MB", digits=2),
        Figure(CONSUME_CPU, "ms a MB", digits=2),
    )
    load = partial(megabytes, record_bytes=record_bytes, records=records)
    return Benchmark(label, "Throughput", figures, load, writes_bytes=record_bytes * records)


def cases(scale: int) -> list[Benchmark]:
    """Return the cases of the gateway's benchmark; their loads are divided by `scale`."""
    percentiles = (latency.P50, ADDED[latency.P50], latency.P99, ADDED[latency.P99])
    return [
        Benchmark(
            "1,000 requests a second",
            "Latency",
            tuple(Figure(name, "ms", digits=3) for name in percentiles),
            partial(latency.paced, rate=1_000 // scale, seconds=5),
        ),
        _throughput("100 B", 100, 1_000_000 // scale),
        _throughput("1 KB", 1_024, 300_000 // scale),
        Benchmark(
            f"{IDLE:,} idle connections",
            "Memory",
            (Figure(MEMORY, "MB"), Figure(MEMORY_AFTER, "MB")),
            partial(memory, count=IDLE // scale),
        ),
    ]


def subtract(results: Results, latencies: Benchmark) -> None:
    """Compute each proxy's added latency, run by run (the latency with the proxy minus the latency without a proxy), and add it to
    `results`."""
    of_case = results.values[latencies.name]
    for name, added in ADDED.items():
        direct = of_case[name][NONE]
        for peer in (peer for peer in results.peers if peer != NONE):
            pairs = zip(of_case[name][peer], direct, strict=True)
            of_case[added][peer] = [None if a is None or b is None else a - b for a, b in pairs]


def missed(results: Results, measured: Sequence[Benchmark]) -> Iterator[str]:
    """Yield a text for each goal that the gateway misses: its added latency, its throughput compared with toxiproxy's, its memory."""
    latencies, *throughputs, idle = measured
    p50 = results.median(latencies, latencies.figures[1], GATEWAY)
    if p50 is not None and round(p50, 3) > ADDED_P50_MAX_MS:
        yield f"added p50: {p50:.3f} ms, wanted ≤ {ADDED_P50_MAX_MS} ms"
    for case in throughputs:
        for figure in case.figures[:2]:
            pairs = zip(results.of(case, figure, GATEWAY), results.of(case, figure, TOXIPROXY), strict=False)
            ratios = [ours / theirs for ours, theirs in pairs if ours is not None and theirs]
            if ratios and statistics.median(ratios) < OF_TOXIPROXY_MIN:
                yield f"{case.name}, {figure.name}: {statistics.median(ratios):.2f} of toxiproxy's, wanted ≥ {OF_TOXIPROXY_MIN}"
    used = results.median(idle, idle.figures[0], GATEWAY)
    if used is not None and used > MEMORY_MAX_MB:
        yield f"memory: {used:.1f} MB, wanted ≤ {MEMORY_MAX_MB} MB"


def broker_with(kind: str, proxy_port: int, directory: Path) -> tuple[BrokerProcess, int]:
    """Return a broker of this `kind` (a name of `BROKERS`), not started, and the port of its second listener. The advertised port of that
    listener is `proxy_port`, so that clients reconnect through toxiproxy. Raises `KafkaMissing` if `kind` is Apache Kafka and it is not
    available."""
    port, behind = free_port(), free_port()
    if kind == "kafka":
        reference = ReferenceBroker(directory / "data", jvm=KAFKA_JVM)
        port = reference.port
        controller = {"CONTROLLER": reference.controller_port}
        reference.settings = {**KAFKA_SETTINGS, **_listeners({"PLAINTEXT": port, "PROXIED": behind, **controller}, proxy_port)}
        reference.format()
        return reference.broker, behind
    settings = _listeners({"PLAINTEXT": port, "PROXIED": behind}, proxy_port)
    argv = [*OTTLA, "serve", "--data-dir", str(directory / "data"), *(f"--set={name}={value}" for name, value in settings.items())]
    return BrokerProcess(argv, port, directory / "broker.log"), behind


def _listeners(ports: dict[str, int], proxy_port: int) -> dict[str, str]:
    def addresses(of: dict[str, int]) -> str:
        return ",".join(f"{name}://{HOST}:{port}" for name, port in of.items())

    return {
        "listeners": addresses(ports),
        "advertised.listeners": addresses({**ports, "PROXIED": proxy_port}),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
    }


def toxiproxy(upstream: int, port: int, directory: Path) -> BrokerProcess:
    """Return toxiproxy, not started, which listens at `port`, forwards to the port `upstream` and injects no faults."""
    config = directory / "toxiproxy.json"
    proxy = {"name": "kafka", "listen": f"{HOST}:{port}", "upstream": f"{HOST}:{upstream}", "enabled": True}
    config.write_text(json.dumps([proxy]))
    argv = [str(go_programs.program(TOXIPROXY)), "-host", HOST, "-port", str(free_port()), "-config", str(config)]
    return BrokerProcess(argv, port, directory / "toxiproxy.log", name=TOXIPROXY)


@contextmanager
def sites(kind: str, directory: Path, *, with_toxiproxy: bool) -> Iterator[list[Site]]:
    """Start a broker and the proxies in front of it, and yield a site (a place to measure) for each proxy and for the broker itself. Raises
    `BrokerFailed` if a process does not start, `KafkaMissing` if Apache Kafka is not available."""
    proxy_port, behind = free_port(), 0
    makers: dict[str, Callable[[Path], BrokerProcess]] = {
        GATEWAY: lambda place: brokers.gateway(direct.bootstrap, place / "gateway.log"),
        TOXIPROXY: lambda place: toxiproxy(behind, free_port() if place.name.endswith("fresh") else proxy_port, place),
    }

    def make_broker(place: Path) -> BrokerProcess:
        nonlocal behind
        made, behind = broker_with(kind, proxy_port, place)
        return made

    def site(name: str, make: Callable[[Path], BrokerProcess], broker: BrokerProcess) -> Site:
        return Site(Peer(name, name, make), broker, None, lambda fresh: lent(make, directory / f"{name}-{fresh}"))

    with ExitStack() as stack:
        direct = stack.enter_context(lent(make_broker, directory / "broker"))
        direct.start(START_TIMEOUT_S)
        found = [site(NONE, make_broker, direct)]
        for name in (GATEWAY, TOXIPROXY) if with_toxiproxy else (GATEWAY,):
            proxy = stack.enter_context(lent(makers[name], directory / name))
            proxy.start()
            found.append(site(name, makers[name], proxy))
        yield found


def measure(found: Sequence[Site], runs: int, scale: int, note: Callable[[str], None]) -> tuple[Results, list[Benchmark]]:
    """Measure all cases with each proxy and without one, and compute the latency that each proxy adds; return the results and the cases."""
    results, measured = Results(runs, [site.peer.name for site in found]), cases(scale)
    records = WARM_UP_RECORDS if scale == 1 else QUICK_WARM_UP_RECORDS
    side_by_side(measured, found, results, partial(warm_up, records=records), note)
    subtract(results, measured[0])
    return results, measured


def main(
    *,
    runs: Annotated[int, typer.Option(min=1, help="Interleaved runs; medians want five or more.")] = 5,
    broker: Annotated[str, typer.Option(help=f"The broker behind the proxies: {' or '.join(BROKERS)}.")] = BROKERS[0],
    quick: Annotated[
        bool, typer.Option("--quick", help="One run with little load: to see that everything works, not for figures.")
    ] = False,
    directory: Annotated[Path, typer.Option("--dir", help="Where logs and results go.")] = Path(".bench/gateway"),
) -> None:
    """Measure the cost of `ottla gateway` in latency, throughput, CPU time and memory, beside toxiproxy and beside no proxy."""
    console = program.new_console()
    if broker not in BROKERS:
        raise typer.BadParameter(f"use {' or '.join(BROKERS)}", param_hint="--broker")
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # with this set, each gateway would compile its modules again
    if reason := go_programs.build(TOXIPROXY, TOXIPROXY_SERVER):
        console.print(f"[yellow]toxiproxy is left out:[/] {reason}")
    with (
        program.or_exit(console, "The proxies could not be measured", KafkaMissing),
        sites(broker, directory, with_toxiproxy=reason is None) as found,
    ):
        results, measured = measure(found, 1 if quick else runs, 20 if quick else 1, console.print)
    (directory / "results.json").write_text(report.as_json(results))
    peers = [site.peer for site in found]
    for section in report.sections(measured):
        title = f"{section}: medians of {results.runs} interleaved runs"
        console.print(report.grid(title, report.figures_table(results, measured, section, peers)))
    goals = [] if quick else [f"misses its goal: {goal}" for goal in missed(results, measured)]
    for line in [*report.blanks(results, measured, peers), *goals]:
        console.print(line)
    console.print(f"Written: {directory / 'results.json'} (every single measurement).")
    raise typer.Exit(1 if results.failures else 0)


if __name__ == "__main__":
    program.run(main)
