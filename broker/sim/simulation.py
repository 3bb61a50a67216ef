"""One simulated run, determined by a random seed: a cluster works with clients under faults. Then all faults end, the cluster must come to
rest, and the logs are checked."""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import Final

from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.disk_audit import audited
from ottla.broker.sim.loop import ProcessKilled, SimLoop, SimulationStuck
from ottla.broker.sim.metadata_judge import UNCLEAN_SETTING
from ottla.broker.sim.nemesis import CLIENT_DIES, FULL, POWER, STALLS, Fault, Nemesis, draw_faults
from ottla.broker.sim.sim_admin import MIN_ISR as MIN_ISR_SETTING
from ottla.broker.sim.sim_admin import SimAdmin
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import MIN_ISR, SESSION_MS, SimCluster, run, sleep, until
from ottla.broker.sim.sim_copier import SimCopier
from ottla.broker.sim.sim_judge import ClusterChecker, unequal_replicas, unsettled
from ottla.broker.sim.sim_member import GroupDeliveries, SimMember
from ottla.broker.sim.sim_producer import ClientHistory, SimProducer
from ottla.broker.sim.sim_reader import SimReader
from ottla.broker.sim.sim_share_group import BROKER_SETTINGS, SimShareGroup, configuring
from ottla.broker.sim.violation import Violation
from ottla.broker.testing.anomalies import Observations, by_value, judge
from ottla.broker.testing.contents import Stored, contents
from ottla.broker.testing.history import Send
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

START_MS: Final = 20_000
"""Time limit for the start of the cluster, in ms of virtual time."""
REST_MS: Final = 180_000
"""Time limit, in ms of virtual time after all faults were healed, for the clients to finish and all replicas to become equal."""
CHECK_US: Final = 10_000
"""The interval of the invariant checks during a run, in microseconds of virtual time."""
NODES: Final = 3
SOURCE, COPY, LOOSE, RISKY = "t", "copy", "loose", "risky"
TOPICS: Final = {SOURCE: 2, COPY: 2, LOOSE: 3, RISKY: 1}
"""The topics of a simulation and their numbers of partitions. Idempotent producers write to SOURCE; copiers copy it to COPY in
transactions. LOOSE is written with acks=1. RISKY has two replicas, min.insync.replicas=1 and unclean elections."""
AUDIT_EVERY: Final = 20
"""One in this many seeds gets a run that ends with an audit (a consistency check) of all simulated disks."""
SMALL: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": str(MIN_ISR),
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": str(SESSION_MS // 4),
    "replica.lag.time.max.ms": str(SESSION_MS),
    **BROKER_SETTINGS,
    "replica.fetch.max.bytes": "1024",  # so that a restarted follower needs several fetches to catch up
}


@dataclass(frozen=True)
class Plan:
    """Everything that determines a simulated run.

    `synced`: acknowledged records are on disk (flush.messages=1). Clients work and faults happen for `work_ms` of virtual time; the
    administrator sends a request about every `admin_ms`. `audits`: the run ends with an audit of the disks.
    """

    seed: int
    synced: bool
    work_ms: int
    faults: tuple[Fault, ...]
    admin_ms: int = 1_000
    audits: bool = False

    @staticmethod
    def of(seed: int) -> Plan:
        """Return the plan of the run that this random seed determines: settings, faults and the clients' work."""
        random = Random(seed)
        synced, work_ms = random.random() < 0.3, random.choice([5_000, 10_000, 18_000])
        sure = (POWER, STALLS) if synced else ()  # a slow disk has much to lose when the power fails
        faults = tuple(draw_faults(random, 500, work_ms, NODES, sure))
        return Plan(seed, synced, work_ms, faults, random.choice([300, 1_000, 3_000]), audits=seed % AUDIT_EVERY == 0)


@dataclass
class Outcome:
    """The result of a simulated run. `happened` are the faults that were really injected; a planned fault is left out if it was not
    possible at its time. `violations` is empty if all invariants hold."""

    plan: Plan
    happened: list[Fault] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    virtual_ms: int = 0
    turns: int = 0
    acknowledged: int = 0
    administered: int = 0
    """The number of the simulated administrator's requests that a response has confirmed."""
    unclean: int = 0
    """The number of unclean elections in topics that allow them."""
    lost: int = 0
    """The number of acknowledged records that unclean elections have lost."""
    shared: tuple[int, int, int] = (0, 0, 0)
    """For the share group: the numbers of deliveries, of accepted records, and of records that were archived because they were delivered
    too often."""
    digest: str = ""
    """A hash of all results of clients and of all disks. Two runs of the same seed must have the same hash."""


def simulate(plan: Plan) -> Outcome:
    """Simulate a plan to its end, or to the first violated invariant; return the outcome."""
    outcome = Outcome(plan)
    with without_gc_and_logging():
        Simulation(plan).run(outcome)
    return outcome


@contextmanager
def without_gc_and_logging() -> Iterator[None]:
    """Disable logging and garbage collection for one simulation, and clean up after its dead processes at the end."""
    collects, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()
    logging.disable(logging.CRITICAL)
    # Coroutines of dead processes are cleaned up at the end and then fail because there is no loop.
    sys.unraisablehook = lambda unraisable: None
    try:
        yield
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while gc.collect():  # clean-up makes new garbage, whose warnings would be attributed to a later test
                pass
    finally:
        logging.disable(logging.NOTSET)
        sys.unraisablehook = hook
        if collects:
            gc.enable()


class Simulation:
    """The execution of one plan: it makes the cluster, the clients and the faults, runs them, and checks the result."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        random = Random(f"{plan.seed} cluster")
        self.loop = SimLoop()  # type: ignore[abstract] # the other methods of a loop are not used
        settings = {**SMALL, **({"log.flush.interval.messages": "1"} if plan.synced else {})}
        self.cluster = SimCluster(self.loop, Random(random.getrandbits(64)), NODES, **settings)
        self.nemesis = Nemesis(self.loop, self.cluster, synced=plan.synced)
        self.nemesis.on_client = self._client_fault
        self.history = ClientHistory()
        self.checker = ClusterChecker(self.cluster)
        self._random = Random(random.getrandbits(64))
        self.producers: list[SimProducer] = []
        self.copiers: list[SimCopier] = []
        self.readers: list[SimReader] = []
        self.group = GroupDeliveries()
        self.shared = SimShareGroup(self.cluster, self.history.wrong, {name: TOPICS[name] for name in (SOURCE, COPY)})
        self.admin = SimAdmin("admin", self.cluster, self._new_random(), fixed=TOPICS, unclean=(RISKY,), pause_ms=plan.admin_ms)
        self._gone: list[SimCopier] = []
        self._members: list[SimMember] = []
        self._checked_us = 0
        self._lost = 0

    def run(self, outcome: Outcome) -> None:
        """Execute the plan, and store the result in `outcome`."""
        try:
            outcome.violations = run(self.loop, self._run_plan())
            outcome.lost = self._lost
        except (Violation, SimulationStuck) as error:
            outcome.violations = [str(error)]
        except Exception as error:  # noqa: BLE001 # a bug of the judge in one seed must not end the campaign
            outcome.violations = [f"the simulation failed: {error!r}"]
        outcome.virtual_ms, outcome.turns = self.loop.now_us // 1000, self.loop.turns
        outcome.happened = self.nemesis.injected
        outcome.shared = self.shared.history.counts
        outcome.unclean = self.checker.unclean_elections
        outcome.administered = self.admin.done
        outcome.acknowledged = sum(send.acked for send in self.history.sends)
        disks = [(path, bytes(found.data)) for node in self.cluster.all_nodes.values() for path, found in sorted(node.files.nodes.items())]
        outcome.digest = blake2b(repr((self.history.sends, disks)).encode(), digest_size=8).hexdigest()

    async def _run_plan(self) -> list[str]:
        cluster = self.cluster
        self.loop.on_idle = self._check
        cluster.start()
        if not await until(self.loop, cluster.all_serve, START_MS):
            raise Violation("the cluster did not start")
        await self._create_topics()
        began_ms = self.loop.now_us // 1000
        self.nemesis.schedule([replace(each, at_ms=began_ms + each.at_ms) for each in self.plan.faults])
        self._start_clients()
        await sleep(self.loop, self.plan.work_ms)
        self._heal()
        if not await until(self.loop, self._at_rest, REST_MS, 200):
            busy = unsettled(cluster) or self._unfinished()
            raise Violation(f"not at rest {REST_MS} ms after everything was healed: {'; '.join(busy)}")
        self.checker.check()
        return self._verdict()

    async def _create_topics(self) -> None:
        usual, risky = {MIN_ISR_SETTING: str(MIN_ISR)}, {MIN_ISR_SETTING: "1", UNCLEAN_SETTING: "true"}
        wanted = []
        for name, count in TOPICS.items():
            configs = [CreatableTopicConfig(*each) for each in (risky if name == RISKY else usual).items()]
            wanted.append(CreatableTopic(name, count, 2 if name == RISKY else 3, configs=configs))
        client = SimClient("first", self.cluster, Random(1))

        async def create() -> None:
            await client.call_any(CreateTopicsRequest(wanted))
            await client.call_any(configuring())

        client.start(create())
        known = [node.broker.services.topics for node in self.cluster.nodes.values() if node.broker is not None]

        def is_ready() -> bool:
            return all(topics.topic(name) for topics in known for name in TOPICS) and self.shared.is_configured

        if not await until(self.loop, is_ready, START_MS):
            raise Violation("the topics were not created, or the share group was not configured")

    def _start_clients(self) -> None:
        copies = [(COPY, index) for index in range(TOPICS[COPY])]
        sources: list[TopicPartition] = [(SOURCE, index) for index in range(TOPICS[SOURCE])]
        for number in range(2):
            self._start_producer(SimProducer(f"p{number}", self.cluster, self._new_random(), self.history), sources)
        careless = SimProducer("careless", self.cluster, self._new_random(), self.history, acks=1, idempotent=False)
        self._start_producer(careless, [(LOOSE, index) for index in range(TOPICS[LOOSE])])
        self._start_producer(SimProducer("daring", self.cluster, self._new_random(), self.history, idempotent=False), [(RISKY, 0)])
        self.admin.start(self.admin.administer(self.loop.now_us // 1000 + self.plan.work_ms))
        for source in sources:
            self.copiers.append(self._copier(source))
        for number in range(2):
            member = SimMember(f"member{number}", self.cluster, self._new_random(), self.history, topic=COPY, group=self.group)
            self._members.append(member)
            member.start(member.work())
        self.shared.start(self._new_random)
        for tp in sources + copies:
            reader = SimReader(f"reader-{tp[0]}-{tp[1]}", self.cluster, self._new_random(), self.history, tp, committed=tp in copies)
            self.readers.append(reader)
            reader.start(reader.read())

    def _copier(self, source: TopicPartition) -> SimCopier:
        name = f"copier{source[1]}.{len(self._gone)}"
        copies = [(COPY, index) for index in range(TOPICS[COPY])]
        copier = SimCopier(name, self.cluster, self._new_random(), self.history, source=source, targets=copies)
        copier.start(copier.copy())
        return copier

    def _client_fault(self, fault: Fault) -> Callable[[], None]:
        """Begin a client fault: kill or pause a copier (a client that copies records in transactions) and a member of the share group.
        Return the function that ends the fault: it replaces killed clients and resumes paused ones."""
        ends = (self._copier_fault(fault), self.shared.fault(fault))

        def end() -> None:
            for each in ends:
                each()

        return end

    def _copier_fault(self, fault: Fault) -> Callable[[], None]:
        """Kill a copier (a client that copies records in transactions), or pause it and start its replacement at once. Return the function
        that ends the fault: it starts the replacement of a killed copier, or resumes the paused one, which is now a zombie."""
        number = fault.node % len(self.copiers)
        old = self.copiers[number]
        old.superseded = True
        self._gone.append(old)
        if fault.kind == CLIENT_DIES:
            self.loop.kill(old.process)
            self.cluster.network.process_died(old.process, power=False)
            return lambda: self._replace(number, old)
        self.loop.pause(old.process)
        self._replace(number, old)
        return lambda: self.loop.resume(old.process)

    def _replace(self, number: int, old: SimCopier) -> None:
        if self.copiers[number] is old:
            self.copiers[number] = self._copier(old.source)

    def _heal(self) -> None:
        self.nemesis.heal()
        self.shared.heal()
        self.loop.spawn(self.admin.process, self.admin.unblock_elections())
        for old in self._gone:
            self.loop.resume(old.process)
        for number, copier in enumerate(self.copiers):
            if copier.superseded:
                self._replace(number, copier)

    def _start_producer(self, producer: SimProducer, tps: list[TopicPartition]) -> None:
        pause_ms = self._random.choice([300, 1_000, 2_000])
        self.producers.append(producer)
        producer.start(producer.produce(tps, self.loop.now_us // 1000 + self.plan.work_ms, pause_ms))

    def _new_random(self) -> Random:
        return Random(self._random.getrandbits(64))

    def _check(self) -> None:
        if self.loop.now_us - self._checked_us >= CHECK_US:
            self._checked_us = self.loop.now_us
            self.checker.check()
            if self.history.wrong:
                raise Violation(self.history.wrong[0])

    def _at_rest(self) -> bool:
        return not (unsettled(self.cluster) or self._unfinished())

    def _unfinished(self) -> list[str]:
        """Return a text for each client that has not finished: it has not sent or read everything that it should."""
        if any(not producer.finished for producer in self.producers):
            return [f"{producer.name} has not sent all" for producer in self.producers if not producer.finished]
        waiting = [(each.name, each.source, each.position) for each in self.copiers]
        waiting += [(each.name, each.tp, each.position) for each in self.readers]
        given = self.group.committed
        waiting += [("the group", (COPY, index), given.get((COPY, index), 0)) for index in range(TOPICS[COPY])]
        waiting += [("the share group", tp, position) for tp, position in self.shared.positions()]
        ends = [self._leader(tp).log.log_end_offset for _, tp, _ in waiting]
        return [
            f"{name} has read {tp} up to {position} of {end}"
            for (name, tp, position), end in zip(waiting, ends, strict=True)
            if position < end
        ]

    def _leader(self, tp: TopicPartition) -> Partition:
        leader = self.cluster.controller.partition(*tp).leader
        broker = self.cluster.nodes[leader].broker if leader >= 0 else None
        assert broker is not None
        return broker.services.partitions.get(*tp)

    def _verdict(self) -> list[str]:
        found = list(self.history.wrong) + unequal_replicas(self.cluster)
        stored = self._stored()
        values = {each.value for each in stored if each.topic == SOURCE}
        sends = sorted(self.history.sends, key=lambda send: send.number)
        for topic, expected in ((SOURCE, None), (COPY, values)):
            of_topic = [each for each in stored if each.topic == topic]
            seen = Observations([send for send in sends if send.topic == topic], [], of_topic, by_value)
            found += [f"{each.kind}: {each.says}" for each in judge(seen, expected)]
        found += self._lost_of_risky(stored, sends) + self.admin.wrong(self.cluster.image)
        found += audited(self.cluster, list(TOPICS)) if self.plan.audits else []
        found += [problem for reader in self.readers for problem in _wrong_reads(reader, stored)]
        found += [problem for tp in self.group.delivered for problem in _wrong_group_deliveries(self.group, tp, stored)]
        found += self.shared.verdict(stored, self._leader)
        full = {fault.node for fault in self.nemesis.injected if fault.kind == FULL}
        found += [f"{node.host} {why}" for node in self.cluster.nodes.values() if node.node_id not in full for why in node.ends if why]
        found += [
            f"a bug: {failure.get('message')}: {failure.get('exception')!r}"
            for _, failure in self.loop.failures
            if not _is_of_killed_process(failure)
        ]
        return found

    def _lost_of_risky(self, stored: list[Stored], sends: list[Send]) -> list[str]:
        """Return a text for each acknowledged record of the topic RISKY that is lost, except records that an unclean election may have
        lost."""
        of_topic = [each for each in stored if each.topic == RISKY]
        seen = Observations([send for send in sends if send.topic == RISKY], [], of_topic, by_value)
        lost = [each for each in judge(seen) if each.kind == "lost-write"]
        may_be_lost_from = self.checker.lost_from(self._leader((RISKY, 0)))
        wrong = [each for each in lost if each.sends[0].offset < may_be_lost_from]
        self._lost = len(lost) - len(wrong)
        return [f"{each.kind}: {each.says}" for each in wrong]

    def _stored(self) -> list[Stored]:
        found: list[Stored] = []
        image = self.cluster.image
        for name in TOPICS:
            for index, now in image.topics[image.topic_ids[name]].partitions.items():
                broker = self.cluster.nodes[now.leader].broker
                assert broker is not None
                found += [each for each in contents(broker, [name]) if each.partition == index]
        return found


def _wrong_reads(reader: SimReader, stored: list[Stored]) -> list[str]:
    """Check that a simulated consumer got exactly the readable records of the log, once and in order. If not, return one text with the
    first difference."""
    there = [(each.offset, (each.key, each.value)) for each in stored if (each.topic, each.partition) == reader.tp]
    hidden = {each.offset for each in stored if (each.topic, each.partition) == reader.tp and not each.outcome.readable}
    wanted = [each for each in there if each[0] not in hidden]
    if reader.delivered == wanted:
        return []
    wrong = next((pair for pair in zip(reader.delivered, wanted, strict=False) if pair[0] != pair[1]), None)
    lengths = f"{len(reader.delivered)} records of {len(wanted)}"
    return [f"{reader.name} was given {lengths}; " + ("" if wrong is None else f"first {wrong[0]} in the place of {wrong[1]}")]


def _wrong_group_deliveries(group: GroupDeliveries, tp: TopicPartition, stored: list[Stored]) -> list[str]:
    """Return texts about records of the partition `tp` that the consumer group did not get, and about records that it got although the log
    does not have them."""
    there = {(each.offset, (each.key, each.value)) for each in stored if (each.topic, each.partition) == tp and each.outcome.readable}
    given = group.delivered[tp]
    found = [f"the group was never given {each} of {tp}" for each in sorted(there - given, key=repr)[:1]]
    return found + [f"the group was given {each} of {tp}, which is not there" for each in sorted(given - there, key=repr)[:1]]


def _is_of_killed_process(failure: dict[str, object]) -> bool:
    return isinstance(failure.get("exception"), ProcessKilled)
