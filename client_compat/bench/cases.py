"""The benchmark cases and their targets. Sizes are chosen so that a run takes at most half an hour on two cores.

A target is a limit for Ottla's value divided by Apache Kafka's in the same run.
"""

from __future__ import annotations

from functools import partial

from client_compat.bench.loads import (
    connections,
    latency,
    life,
    many,
    many_replicas,
    pipeline,
    replication,
    restart,
    rewinds,
    shared,
    throughput,
    transactions,
)
from client_compat.bench.model import Ability, Benchmark, Figure, Point, Site

REQUESTS, LATENCY, TRANSACTIONS = "Small requests", "Latency", "Transactions"
CONNECTIONS, PROCESS, CLUSTER, MANY = "Connections", "Process", "Three brokers", "Many of everything"
SHARE = "Share groups through Java"
REWIND = "Fork and rewind"

FASTER, HALF_AGAIN, TWICE, THRICE = 1.0, 1.5, 2.0, 3.0
HALF, TENTH, FIFTH = 0.5, 0.1, 0.2

RESTART = frozenset({Ability.RESTART})
RETENTION = frozenset({Ability.RETENTION})
JAVA = frozenset({Ability.JAVA})
PARTITIONS = frozenset({Ability.PARTITIONS})
OF_CLUSTER = frozenset({Ability.CLUSTER})
OF_SHARE_GROUPS = frozenset({Ability.JAVA, Ability.SHARE})

_THROUGHPUT_FIGURES = (
    Figure(throughput.PRODUCED, "records/s", more_is_better=True, target=FASTER, digits=0),
    Figure(throughput.CONSUMED, "records/s", more_is_better=True, target=FASTER, digits=0, needs=RETENTION),
    Figure(throughput.PRODUCE_CPU, "s per million records", target=HALF, digits=2),
    Figure(throughput.CONSUME_CPU, "s per million records", target=HALF, digits=2, needs=RETENTION),
)


WARM_UP_RECORDS = 200_000
QUICK_WARM_UP_RECORDS = 5_000
SHARED_RECORDS = 200_000


def _throughput(client: str, label: str, record_bytes: int, partitions: int, records: int) -> Benchmark:
    load = throughput.through_librdkafka if client == "librdkafka" else throughput.through_java
    return Benchmark(
        f"{client}, {label}, {partitions} partition{'s' if partitions > 1 else ''}",
        f"Throughput through {client}",
        _THROUGHPUT_FIGURES,
        partial(load, record_bytes=record_bytes, partitions=partitions, records=records),
        (PARTITIONS if partitions > 1 else frozenset()) | (JAVA if client == "Java" else frozenset()),
        record_bytes * records,
    )


def _through_tls(label: str, record_bytes: int, records: int) -> Benchmark:
    return Benchmark(
        f"TLS, {label}, 1 partition",
        "Throughput through librdkafka, with TLS",
        _THROUGHPUT_FIGURES,
        partial(throughput.through_tls, record_bytes=record_bytes, partitions=1, records=records),
        frozenset({Ability.TLS}),
        record_bytes * records,
    )


_LATENCY_FIGURES = (
    Figure(latency.P50, "ms", digits=3),
    Figure(latency.P99, "ms", target=HALF, digits=3),
    Figure(latency.P999, "ms", digits=3),
)


def _transactions(label: str, partitions: int, count: int, records_each: int) -> Benchmark:
    return Benchmark(
        label,
        TRANSACTIONS,
        (Figure(transactions.COMMITS, "a second", more_is_better=True, target=TWICE, digits=0),),
        partial(transactions.transactions, partitions=partitions, record_bytes=100, count=count, records_each=records_each),
        frozenset({Ability.TRANSACTIONS}),
    )


def _share_queue(consumers: int) -> Benchmark:
    return Benchmark(
        f"share group, 100 B, {consumers} consumer{'s' if consumers > 1 else ''}",
        SHARE,
        (
            Figure(shared.TAKEN, "records/s", more_is_better=True, target=FASTER, digits=0),
            Figure(shared.TAKE_CPU, "s per million records", target=HALF, digits=2),
        ),
        partial(shared.queue, consumers=consumers, record_bytes=100, records=SHARED_RECORDS),
        OF_SHARE_GROUPS,
    )


def _many(label: str, idle: many.Idle, count: int) -> Benchmark:
    return Benchmark(
        label,
        MANY,
        (
            *(Figure(many.request_cpu(each), "µs", digits=1, point=Point(many.REQUEST_CPU, each)) for each in many.PERCENTS),
            *(Figure(many.rest_cpu(each), "ms a second", digits=1, point=Point(many.REST_CPU, each)) for each in many.PERCENTS),
            Figure(many.MEMORY, "KiB", digits=2),
        ),
        partial(many.beside, idle=idle, count=count, rounds=5, cycles=100),
        frozenset({Ability.GROWTH}),
    )


def _rewinds(topics: int, megabytes: int) -> Benchmark:
    return Benchmark(
        f"{topics:,} topics, {megabytes:,} MB",
        REWIND,
        tuple(Figure(name, "ms", digits=0) for name in (rewinds.REWOUND, rewinds.MARKED, rewinds.FORKED, rewinds.COPIED, rewinds.SEEDED)),
        partial(rewinds.by_size, topics=topics, megabytes=megabytes),
        frozenset({Ability.MARKS}),
    )


def _replicated(label: str, record_bytes: int, records: int) -> Benchmark:
    return Benchmark(
        f"three replicas, acks=all, {label}",
        CLUSTER,
        (
            Figure(replication.PRODUCED, "records/s", more_is_better=True, target=FASTER, digits=0),
            Figure(replication.CPU, "s per million records", target=HALF, digits=2),
        ),
        partial(replication.batched, record_bytes=record_bytes, records=records),
        OF_CLUSTER,
        3 * record_bytes * records,
    )


CASES: list[Benchmark] = [
    *(
        _throughput(client, label, size, partitions, records)
        for client in ("librdkafka", "Java")
        for label, size, records in (("100 B", 100, 1_000_000), ("1 KB", 1_024, 300_000))
        for partitions in (1, 6)
    ),
    *(_through_tls(label, size, records) for label, size, records in (("100 B", 100, 500_000), ("1 KB", 1_024, 200_000))),
    Benchmark(
        "one-record batches, five in flight",
        REQUESTS,
        (
            Figure(pipeline.REQUESTS, "requests/s", more_is_better=True, target=THRICE, digits=0),
            Figure(pipeline.REQUEST_CPU, "s per million requests", target=HALF, digits=0),
            Figure(pipeline.THROUGH_CLIENT, "requests/s", more_is_better=True, digits=0),
        ),
        partial(pipeline.one_record_batches, record_bytes=100, records=12_000, through_client=8_000),
    ),
    Benchmark(
        "acknowledgement, one in flight",
        LATENCY,
        _LATENCY_FIGURES,
        partial(latency.one_in_flight, requests=3_000),
    ),
    Benchmark(
        "acknowledgement, 1,000 requests a second",
        LATENCY,
        _LATENCY_FIGURES,
        partial(latency.paced, rate=1_000, seconds=4),
    ),
    Benchmark(
        "end to end, 1,000 records a second",
        LATENCY,
        _LATENCY_FIGURES,
        partial(latency.end_to_end, rate=1_000, seconds=4),
    ),
    _transactions("transactions of 1 record", 1, 400, 1),
    _transactions("transactions of 100 records over 3 partitions", 3, 250, 100),
    *map(_share_queue, (1, 3)),
    Benchmark(
        "share group, end to end, 1,000 records a second",
        SHARE,
        (Figure(latency.P50, "ms", digits=3), Figure(latency.P99, "ms", target=FASTER, digits=3)),
        partial(shared.paced, rate=1_000, seconds=4),
        OF_SHARE_GROUPS,
    ),
    Benchmark(
        "1,000 idle connections",
        CONNECTIONS,
        (
            Figure(connections.OPENED, "s", digits=2),
            Figure(connections.CONNECTION_MEMORY, "KiB", digits=1),
            Figure(connections.BESIDE_P50, "ms", digits=3),
            Figure(connections.BESIDE_P99, "ms", target=HALF, digits=3),
        ),
        partial(connections.idle, count=1_000, requests=1_000),
    ),
    Benchmark(
        "200 busy connections",
        CONNECTIONS,
        (
            Figure(connections.RATE, "requests/s", more_is_better=True, target=HALF_AGAIN, digits=0),
            Figure(latency.P50, "ms", digits=2),
            Figure(latency.P99, "ms", target=HALF, digits=2),
            Figure(connections.RATE_CPU, "s per million requests", target=HALF, digits=0),
        ),
        partial(connections.busy, count=200, requests_each=60),
    ),
    Benchmark(
        "a fresh broker",
        PROCESS,
        (
            Figure(life.FIRST_ACK, "s", target=TENTH, digits=2),
            Figure(life.IDLE_MEMORY, "MiB", target=FIFTH, digits=0),
            Figure(life.LOADED_MEMORY, "MiB", target=FIFTH, digits=0),
        ),
        partial(life.first_steps, records=100_000),
    ),
    Benchmark(
        "2,000 partitions",
        PROCESS,
        (
            Figure(life.CREATED, "s", digits=2),
            Figure(life.RESTARTED, "s", digits=2, needs=RESTART),
            Figure(life.PARTITIONS_MEMORY, "MiB", digits=0),
        ),
        partial(life.partitions, topics=20, partitions_each=100),
        PARTITIONS,
    ),
    _many("many: 5,000 connections", many.CONNECTIONS, 5_000),
    _many("many: 1,000 groups", many.GROUPS, 1_000),
    _many("many: 100,000 producer ids", many.PRODUCER_IDS, 100_000),
    _many("many: 10,000 partitions", many.PARTITIONS, 10_000),
    _many("many: all of these at once", many.EVERYTHING, 5_000),
    *(_rewinds(topics, megabytes) for topics, megabytes in ((10, 10), (100, 100), (100, 1_000))),
    _replicated("100 B", 100, 1_000_000),
    _replicated("1 KB", 1_024, 300_000),
    Benchmark(
        "three replicas, acks=all, 1,000 records a second",
        CLUSTER,
        (*_LATENCY_FIGURES, Figure(replication.CPU, "s per million records", target=HALF, digits=0)),
        partial(replication.paced, rate=1_000, seconds=5),
        OF_CLUSTER,
    ),
    Benchmark(
        "many: 10,000 partitions of three brokers",
        CLUSTER,
        tuple(
            Figure(figure(each), unit, target=HALF if of_request else None, digits=1)
            for figure, unit, of_request in (
                (many_replicas.record_cpu, "µs", True),
                (many_replicas.transaction_cpu, "µs", True),
                (many_replicas.rest_cpu, "ms a second", False),
            )
            for each in many_replicas.COUNTS
        ),
        partial(many_replicas.beside, counts=many_replicas.COUNTS, records=500, transactions=200),
        OF_CLUSTER,
    ),
    Benchmark(
        "2,000 partitions of three brokers, restarted",
        CLUSTER,
        (Figure(restart.RESTARTED, "s", target=FIFTH, digits=1), Figure(restart.RESTART_CPU, "s", target=FIFTH, digits=1)),
        partial(restart.with_data, partitions=2_000),
        OF_CLUSTER,
    ),
]


def warm_up(site: Site, records: int = WARM_UP_RECORDS) -> None:
    """Load a broker before the measurements, so that first page accesses, thread starts and JIT compilation are not measured.

    Raises `LoadFailed` if the load does not complete.
    """
    throughput.through_librdkafka(site, record_bytes=100, partitions=1, records=records)
    pipeline.one_record_batches(site, record_bytes=100, records=records // 20, through_client=records // 100)
    if site.java is not None and site.can(Ability.JAVA):
        throughput.through_java(site, record_bytes=100, partitions=1, records=records)


def warm_up_secured(site: Site, records: int = WARM_UP_RECORDS) -> None:
    """Load a broker with TLS before its measurements, so that first page accesses and thread starts are not measured."""
    throughput.through_tls(site, record_bytes=100, partitions=1, records=records)


def warm_up_cluster(site: Site, records: int = WARM_UP_RECORDS) -> None:
    """Load a cluster of three brokers before its measurements, so that first page accesses, thread starts and JIT compilation are not
    measured."""
    replication.batched(site, record_bytes=100, records=records)
    replication.paced(site, rate=1_000, seconds=max(1, records // 20_000))
