"""The run: load, faults on every broker in turn, and then the verdicts, over the wire and over the brokers' directories.

Rules: a fault counts as under load only when every client was answered since the last one; the next one waits until the cluster has
settled. The random source is an argument: a seed repeats the plan, not the interleaving.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from client_compat.cluster_mixed import replicas, transactions
from client_compat.cluster_mixed.faults import DO, Fault
from client_compat.cluster_mixed.replicas import ReplicasVerdict
from client_compat.cluster_mixed.transactions import RunningTransactions, TxnVerdict, group_of, transacting
from client_compat.kafka.cluster import Cluster, Node, running
from client_compat.support.load import Load, RunningLoad, under
from client_compat.support.reading import committed, read_with_confluent
from client_compat.support.verdict import AckVerdict, judge
from client_compat.support.workers import RunFailed

if TYPE_CHECKING:
    from ottla.spark_jobs.verdict import Verdict

TOPIC, TXN_TOPIC = "idempotent", "transactional"
PARTITIONS = 6
RATE_MAX = 200
SERVED_TIMEOUT_S = 120.0
FLUSH_TIMEOUT_S = 180.0
LOOK_S = 0.05
CARELESS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


@dataclass(slots=True)
class MixedRun:
    """What was done, and every verdict on it. `audit` is None while nothing was audited."""

    faults: Counter[tuple[int, Fault]] = field(default_factory=Counter)
    back_seconds: list[float] = field(default_factory=list)
    """From each fault until the cluster had settled."""
    seconds: float = 0.0
    hung: list[str] = field(default_factory=list)
    """Clients that were killed because a call to them did not come back, once for each time."""
    acks: AckVerdict = field(default_factory=AckVerdict)
    transactions: TxnVerdict = field(default_factory=TxnVerdict)
    replicas: ReplicasVerdict = field(default_factory=ReplicasVerdict)
    audit: Verdict | None = None

    @property
    def good(self) -> bool:
        audited = self.audit is not None and self.audit.exit_code == 0
        return audited and self.acks.good and self.transactions.good and self.replicas.good


def plan(brokers: Sequence[Node], faults: Sequence[Fault]) -> Iterator[tuple[Node, Fault]]:
    """The next fault on the next broker, without end; every broker gets every fault."""
    round_length = math.lcm(len(brokers), len(faults))
    for number in itertools.count():
        yield brokers[number % len(brokers)], faults[(number + number // round_length) % len(faults)]


def run(
    cluster: Cluster,
    clients: Sequence[str],
    count: int,
    faults: Sequence[Fault],
    seed: int,
    *,
    careless: bool = False,
    on_fault: Callable[[MixedRun, Node, Fault], None] = lambda run, broker, fault: None,
) -> MixedRun:
    """`count` faults in a new cluster. Raises `BrokerFailed`, `RunFailed`, `KafkaMissing` or `ClientMissing`."""
    rng, found, began = random.Random(seed), MixedRun(), time.perf_counter()
    with running(cluster):
        for topic in (TOPIC, TXN_TOPIC):
            cluster.create_topic(topic, PARTITIONS, CARELESS if careless else None)
        load = Load(cluster.bootstrap, TOPIC, cluster.directory, RATE_MAX, clients, careless)
        with ExitStack() as stack:
            acks = stack.enter_context(under(load))
            txns = stack.enter_context(transacting(clients, cluster.directory, cluster.bootstrap, TXN_TOPIC, PARTITIONS))
            for broker, fault in itertools.islice(plan(cluster.brokers, faults), count):
                wait_until_served(acks, txns)
                at = time.perf_counter()
                DO[fault](cluster, broker, rng)
                cluster.settle()
                found.back_seconds.append(time.perf_counter() - at)
                found.faults[broker.node_id, fault] += 1
                on_fault(found, broker, fault)
            wait_until_served(acks, txns)
            txns.finish(FLUSH_TIMEOUT_S)
            acks.finish(FLUSH_TIMEOUT_S)
        found.acks = judge(load, PARTITIONS)
        found.hung = [one.name for one in txns.loads for _ in range(one.hung)]
        told = {one.name: one.outcomes for one in txns.loads}
        offsets = {one: committed(cluster.bootstrap, group_of(one), TXN_TOPIC, 1)[0] for one in told}
        seen = read_with_confluent(cluster.bootstrap, TXN_TOPIC, PARTITIONS, "read_committed")
        found.transactions = transactions.judge(told, offsets, PARTITIONS, ((one.partition, one.value) for one in seen))
        cluster.settle()
        cluster.stop()
    directories = [broker.directory for broker in cluster.brokers]
    found.replicas = replicas.compare(directories)
    found.audit = audited(directories)
    found.seconds = time.perf_counter() - began
    return found


def audited(directories: Sequence[Path]) -> Verdict:
    """`ottla audit --replicas` over all directories."""
    from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # the client processes import this module again and need none of it

    return audit(directories, replicas=True, engine="duckdb")


def wait_until_served(acks: RunningLoad, txns: RunningTransactions) -> None:
    """Until every client was answered anew. Raises `RunFailed`."""
    before, deadline = [*acks.answered, *txns.answered], time.monotonic() + SERVED_TIMEOUT_S
    while any(now == then for now, then in zip((*acks.answered, *txns.answered), before, strict=True)):
        acks.check()
        txns.check()
        if time.monotonic() > deadline:
            waiting = [now - then for now, then in zip((*acks.answered, *txns.answered), before, strict=True)]
            raise RunFailed(f"a client was not answered within {SERVED_TIMEOUT_S:.0f} s (answers since, by client: {waiting})")
        time.sleep(LOOK_S)
