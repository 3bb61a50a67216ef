"""Interleaved runs: all brokers run at the same time, and every case is measured on one after the other, in random order.

Rules:
- The order is drawn for each case and run from a fixed seed, so that no broker always follows the same other one, with its freed memory and
  busy disk.
- Before a case that writes a lot, as much memory is allocated and freed, so that each broker finds pages that the machine already has.
- A broker stays up for all runs, so that a JVM finishes its compilation. A case that needs a broker's start gets a fresh broker.
- Brokers with TLS start after the others have stopped, and clusters last.
- A failure is recorded with its reason and the benchmark continues, because a missing ability of a peer is a result.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from client_compat.bench.cases import QUICK_WARM_UP_RECORDS, WARM_UP_RECORDS, warm_up, warm_up_cluster, warm_up_secured
from client_compat.bench.loads.java import JavaLoad
from client_compat.bench.memory import touch
from client_compat.bench.model import Benchmark, LoadFailed, Peer, Results, Site
from client_compat.support.brokers import BrokerFailed, BrokerProcess
from ottla.protocol.errors import ProtocolError

START_TIMEOUT_S = 60.0

FAILURES = (LoadFailed, BrokerFailed, KafkaException, ProtocolError, OSError)
"""Expected errors of a load or a broker; any other exception is a bug of the benchmark."""


@contextmanager
def lent(make: Callable[[Path], BrokerProcess], directory: Path) -> Iterator[BrokerProcess]:
    """Yield a broker, not started, over a new directory. At the end, stop it and delete its data, but keep its output."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    broker = make(directory)
    try:
        yield broker
    finally:
        if broker.alive:
            broker.stop()
        shutil.rmtree(directory / "data", ignore_errors=True)


def bench(
    cases: Sequence[Benchmark],
    runs: int,
    peers: Sequence[Peer],
    directory: Path,
    *,
    java: bool,
    note: Callable[[str], None],
    quick: bool = False,
) -> Results:
    """Measure every case `runs` times on each peer (a broker under comparison), and return the results. `note` is called before each
    measurement. `java`: a Java client also loads standalone brokers. `quick`: the warm-up is shorter. Raises `BrokerFailed` if a standalone
    broker does not start; if a broker with TLS or a cluster does not start, this is recorded as a failure of its cases."""
    results = Results(runs, [peer.name for peer in peers])
    records = QUICK_WARM_UP_RECORDS if quick else WARM_UP_RECORDS
    alone = [case for case in cases if not case.of_cluster and not case.of_tls]
    secured, of_clusters = [case for case in cases if case.of_tls], [case for case in cases if case.of_cluster]
    if alone:
        with ExitStack() as stack:
            client = stack.enter_context(JavaLoad(directory / "java-client.log")) if java else None
            sites = [_site(peer, peer.make, directory / "brokers", client, stack) for peer in peers]
            side_by_side(alone, sites, results, partial(warm_up, records=records), note)
    if secured:
        with ExitStack() as stack:
            makers = [(peer, peer.make_secured) for peer in peers]
            sites = list(_others(secured, makers, directory / "secured", stack, results))
            side_by_side(secured, sites, results, partial(warm_up_secured, records=records), note)
    if of_clusters:
        with ExitStack() as stack:
            makers = [(peer, peer.make_cluster) for peer in peers]
            sites = list(_others(of_clusters, makers, directory / "clusters", stack, results))
            side_by_side(of_clusters, sites, results, partial(warm_up_cluster, records=records), note)
    return results


def _others(
    cases: Sequence[Benchmark],
    makers: Sequence[tuple[Peer, Callable[[Path], BrokerProcess] | None]],
    directory: Path,
    stack: ExitStack,
    results: Results,
) -> Iterator[Site]:
    """Start the brokers with TLS, or the clusters, and yield each as a site (a running broker at which cases are measured). `makers` has
    None for a peer (a broker under comparison) that has no such broker.

    If a broker does not start (for example Ottla from an older commit), this is recorded as a failure of all its cases, so that earlier
    results are kept.
    """
    for peer, make in makers:
        if make is None:
            continue
        try:
            yield _site(peer, make, directory, None, stack)
        except BrokerFailed as failure:
            for case in cases:
                for _ in range(results.runs):
                    results.fail(case, peer.name, f"{failure}"[:500])


def side_by_side(
    cases: Sequence[Benchmark], sites: Sequence[Site], results: Results, warm: Callable[[Site], None], note: Callable[[str], None]
) -> None:
    """Warm up the broker of each site, then run by run measure every case at each site, in random order, and add the values and failures to
    `results`. `note` is called before each measurement. A broker that fails to warm up is measured nevertheless.
    """
    for site in sites:
        note(f"warming up {site.peer.name}")
        try:
            warm(replace(site, run=-1))
        except FAILURES as failure:
            note(f"{site.peer.name} failed to warm up: {failure}")
            site.broker.check_alive()
    for run in range(results.runs):
        for number, case in enumerate(cases):
            for site in random.Random(f"{run} {number}").sample(sites, len(sites)):
                if case.possible(site.peer):
                    note(f"run {run + 1} of {results.runs}: {case.name}, {site.peer.name}")
                    if case.writes_bytes:
                        touch(2 * case.writes_bytes)
                    measure(case, replace(site, run=run), results)


def _site(peer: Peer, make: Callable[[Path], BrokerProcess], directory: Path, java: JavaLoad | None, stack: ExitStack) -> Site:
    broker = stack.enter_context(lent(make, directory / peer.name))
    broker.start(START_TIMEOUT_S)
    return Site(peer, broker, java, lambda name: lent(make, directory / f"{peer.name}-{name}"))


def measure(case: Benchmark, site: Site, results: Results) -> None:
    try:
        results.add(case, site.peer.name, case.measure(site))
    except FAILURES as failure:
        results.fail(case, site.peer.name, f"{type(failure).__name__}: {failure}"[:500])
        site.broker.check_alive()
