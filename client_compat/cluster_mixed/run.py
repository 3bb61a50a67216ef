"""One run: starts load on a cluster, injects faults into every node in turn, and compares the clients' results with the brokers'
directories.

Rules:
- A fault is injected only when the cluster has settled and every client has received a response since the previous fault, so that each
  fault happens under load.
- The random source is an argument. A seed repeats the plan, not the timing.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from client_compat.cluster_mixed import replicas, transactions
from client_compat.cluster_mixed.faults import BROKER_FAULTS, CONCURRENT_FAULTS, INJECTORS, Fault
from client_compat.cluster_mixed.groups import GroupVerdict, reading
from client_compat.cluster_mixed.replicas import ReplicasVerdict
from client_compat.cluster_mixed.transactions import TxnVerdict, group_of, transacting, with_offsets
from client_compat.kafka.cluster import FIRST_CONTROLLER, Cluster, Node, running
from client_compat.support import raised_epochs
from client_compat.support.load import Load, under
from client_compat.support.reading import committed, ends, read_with_confluent, wait_until_stable
from client_compat.support.served import wait_until_served
from client_compat.support.small_disk import small_disk
from client_compat.support.verdict import AckVerdict, judge
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.verdict import Verdict

TOPIC, TXN_TOPIC = "idempotent", "transactional"
PARTITIONS = 6
RATE_MAX, CHAOS_RATE_MAX = 200, 50
"""The maximum number of records that each client sends a second: RATE_MAX normally, CHAOS_RATE_MAX in a run with `chaos`. The limit keeps
the log of a long run small, so that it can be checked in minutes."""
SERVED_TIMEOUT_S = 120.0
FLUSH_TIMEOUT_S = 180.0
CARELESS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


@dataclass(slots=True)
class MixedRun:
    """The results of a run. `faults`: how often each (node id, fault) was injected. `acks`, `transactions`, `groups` and `replicas`:
    comparisons of the clients' results and of the replicas. `audit`: the verdict of `ottla audit`, None before the audit."""

    faults: Counter[tuple[int, Fault]] = field(default_factory=Counter)
    back_seconds: list[float] = field(default_factory=list)
    """Seconds from the start of each fault until the cluster had settled again."""
    hung: list[str] = field(default_factory=list)
    """Names of the transactional clients that were killed because a call did not return. A client killed twice is in the list twice."""
    members_hung: list[str] = field(default_factory=list)
    """The names of group members that were killed because a call did not return: librdkafka's commit waits for a coordinator without a time
    limit. This alone is no failure of the run, which checks only that the group progresses."""
    acks: AckVerdict = field(default_factory=AckVerdict)
    transactions: TxnVerdict = field(default_factory=TxnVerdict)
    groups: GroupVerdict | None = None
    """The verdict on the consumer groups. None for a run with acks=1, because brokers then truncate records that groups have already
    received."""
    replicas: ReplicasVerdict = field(default_factory=ReplicasVerdict)
    audit: Verdict | None = None

    @property
    def good(self) -> bool:
        if self.hung or self.audit is None or self.audit.exit_code:
            return False
        return self.acks.good and self.transactions.good and (not self.groups or self.groups.good) and self.replicas.good

    def show(self, console: Console) -> None:
        for kind in Fault:
            if by_node := {node_id: count for (node_id, one), count in sorted(self.faults.items()) if one == kind}:
                console.print(f"{kind}: " + ", ".join(f"node {node_id} {count} times" for node_id, count in by_node.items()))
        if back := self.back_seconds:
            console.print(f"Settled after a fault in {statistics.median(back):.1f} s (median), {max(back):.1f} s at most.")
        self.acks.show(console, "Records")
        self.transactions.show(console, "Transactions")
        if self.groups is not None:
            self.groups.show(console, "Records received by groups")
        self.replicas.show(console, "Replicas")
        if self.audit is not None:
            console.print(f"Audit of all directories: {self.audit.headline}.")
            for text in findings(self.audit):
                console.print(text, style="yellow", markup=False)
        if self.hung:
            console.print(f"[red]Clients that hung, and were killed:[/] {', '.join(self.hung)}; see transactions.log.")
        if self.members_hung:
            console.print(f"[yellow]Members that hung, and were killed:[/] {', '.join(self.members_hung)}; see groups.log.")


def plan(nodes: Sequence[Node], faults: Sequence[Fault]) -> Iterator[tuple[Node, Fault]]:
    """Yield the next fault and node without end; every broker gets every fault, and every controller those that apply to it."""
    round_length = math.lcm(len(nodes), len(faults))
    for number in itertools.count():
        node, fault = nodes[number % len(nodes)], faults[(number + number // round_length) % len(faults)]
        if node.node_id < FIRST_CONTROLLER or fault not in BROKER_FAULTS:
            yield node, fault


def rounds(planned: Iterator[tuple[Node, Fault]], rng: random.Random, *, pairs: bool) -> Iterator[list[tuple[Node, Fault]]]:
    """Group the planned faults into rounds, whose faults happen at the same time. A round has one fault; with `pairs`, about half of the
    rounds have two, if both are of kinds that may be combined and hit different nodes."""
    for first in planned:
        at_once = [first]
        if pairs and first[1] in CONCURRENT_FAULTS and rng.random() < 0.5 and (second := next(planned, None)) is not None:
            if second[1] in CONCURRENT_FAULTS and second[0] is not first[0]:
                at_once.append(second)
            else:
                yield [second]
        yield at_once


def run(
    cluster: Cluster,
    clients: Sequence[str],
    count: int,
    faults: Sequence[Fault],
    seed: int,
    *,
    chaos: bool = False,
    careless: bool = False,
    seconds: float = math.inf,
    on_fault: Callable[[MixedRun, Node, Fault, str], None] = lambda run, node, fault, description: None,
) -> MixedRun:
    """Start a new cluster, inject `count` faults under load, and return the results. With `chaos`, faults also hit the controllers, and
    some happen at the same time. With `careless`, clients use acks=1 without idempotence, and unclean elections are enabled. After
    `seconds` seconds no further fault is injected. Raises `BrokerFailed` if a node fails, `RunFailed` or `ClientMissing` if a client fails
    or cannot start, `KafkaMissing` or `NoSmallDisk` if this machine lacks Apache Kafka or a disk to fill."""
    rng, found, began = random.Random(seed), MixedRun(), time.perf_counter()
    todo = rounds(itertools.islice(plan(cluster.nodes if chaos else cluster.brokers, faults), count), rng, pairs=chaos)
    in_time = itertools.takewhile(lambda _: time.perf_counter() - began < seconds, todo)
    with ExitStack() as stack:
        if Fault.DISK in faults:
            for node in cluster.nodes:
                node.disk = stack.enter_context(small_disk(node.directory))
        stack.enter_context(running(cluster))
        for topic in (TOPIC, TXN_TOPIC):
            cluster.create_topic(topic, PARTITIONS, CARELESS if careless else None)
        _under_load(cluster, clients, in_time, rng, found, chaos=chaos, careless=careless, on_fault=on_fault)
        cluster.settle()
        cluster.stop()
    directories = [broker.directory for broker in cluster.brokers]
    raised_epochs.excuse(found.acks, directories[0], TOPIC)
    found.replicas = replicas.compare(directories)
    found.audit = audited(directories)
    return found


def _under_load(
    cluster: Cluster,
    clients: Sequence[str],
    todo: Iterator[list[tuple[Node, Fault]]],
    rng: random.Random,
    found: MixedRun,
    *,
    chaos: bool,
    careless: bool,
    on_fault: Callable[[MixedRun, Node, Fault, str], None],
) -> None:
    """Inject the faults while clients produce and consume. Afterwards compare the acknowledgements and the records that the clients
    received with the log. The results are stored in `found`."""
    directory, bootstrap = cluster.directory, cluster.bootstrap
    load = Load(bootstrap, TOPIC, directory, CHAOS_RATE_MAX if chaos else RATE_MAX, clients, careless)
    with ExitStack() as stack:
        acks = stack.enter_context(under(load))
        txns = stack.enter_context(transacting(clients, directory, bootstrap, TXN_TOPIC, PARTITIONS))
        groups = stack.enter_context(reading([] if careless else clients, directory, bootstrap, TOPIC, PARTITIONS))
        loads = (acks, txns, groups)

        def check() -> None:
            for one in loads:
                one.check()

        def served() -> None:
            wait_until_served(lambda: [count for one in loads for count in one.answered], check, SERVED_TIMEOUT_S)

        for at_once in todo:
            served()
            at = time.perf_counter()
            randoms = [random.Random(rng.random()) for _ in at_once]
            with ThreadPoolExecutor(len(at_once)) as pool:
                description = list(pool.map(lambda one, own: INJECTORS[one[1]](cluster, one[0], own), at_once, randoms))
            cluster.settle()
            found.back_seconds.append(time.perf_counter() - at)
            for (node, fault), text in zip(at_once, description, strict=True):
                found.faults[node.node_id, fault] += 1
                on_fault(found, node, fault, text)
        served()
        txns.finish(FLUSH_TIMEOUT_S)
        acks.finish(FLUSH_TIMEOUT_S)
        groups.finish(ends(bootstrap, TOPIC, PARTITIONS), FLUSH_TIMEOUT_S)
    found.acks = judge(load, PARTITIONS)
    found.hung = [one.name for one in txns.loads for _ in range(one.hung)]
    found.members_hung = groups.hung
    wait_until_stable(bootstrap, TXN_TOPIC, PARTITIONS)
    outcomes = {one.name: one.outcomes for one in txns.loads}
    offsets = {one: committed(bootstrap, group_of(one), TXN_TOPIC, 1)[0] for one in outcomes if with_offsets(one)}
    seen = read_with_confluent(bootstrap, TXN_TOPIC, PARTITIONS, "read_committed")
    found.transactions = transactions.judge(outcomes, offsets, PARTITIONS, ((one.partition, one.value) for one in seen))
    if not careless:
        found.groups = groups.judge(read_with_confluent(bootstrap, TOPIC, PARTITIONS, "read_uncommitted"))


def audited(directories: Sequence[Path]) -> Verdict:
    """Run `ottla audit --replicas` over all directories, and return its verdict."""
    from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # client processes import this module too, and do not need it

    return audit(directories, replicas=True, engine="duckdb")


def findings(audit: Verdict) -> list[str]:
    """Return the audit's violations and warnings as lines of text. A finding that several brokers share is one line, which names all of
    them."""
    found: dict[str, list[str]] = {}
    for directory in audit.directories:
        for sample in (sample for result in directory.rules.values() for sample in result.samples if sample.severity != Severity.INFO):
            evidence = ", ".join(f"{name} {value}" for name, value in sample.evidence.items())
            text = f"{sample.severity}, {sample.rule}: {sample.kind} at {sample.where} ({evidence})"
            found.setdefault(text, []).append(Path(directory.path).name)
    return [f"{text}: {', '.join(brokers)}" for text, brokers in found.items()]
