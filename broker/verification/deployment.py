"""The brokers that one run of `ottla verify` uses: either a single broker or a cluster of three brokers, both in this process. The module
`user_cluster` adds a third kind: the user's own cluster, reached through a gateway.

Rules:
- A fault rule is loaded on all brokers, and its counters are common to them. It does not apply to requests of `ottla verify` itself or to
  requests between brokers.
- In a cluster, broker 1 leads the partitions of the input and output topics, broker 2 coordinates groups, and broker 3 coordinates
  transactions. So a fault of a broker with one role does not disturb the other roles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.app import Broker
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import FaultRule, parse_rule
from ottla.broker.replication.progress import Progress
from ottla.broker.testing import cluster_verdict, verdict
from ottla.broker.testing.anomalies import Identity, by_value
from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.testing.contents import TopicPartition
from ottla.broker.testing.history import Read, Send
from ottla.broker.testing.in_process import InProcessBroker
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.broker.testing.verdict import Examined
from ottla.broker.verification.program import Program
from ottla.broker.verification.request_observer import VERIFIER_CLIENT, RequestObserver
from ottla.broker.verification.verifier_client import BY_GROUP, BY_TRANSACTION, VerifierClient

SETTINGS: Final = {
    "log.retention.ms": "-1",  # the clock is advanced, and programs write their own timestamps
    "fetch.max.bytes": "1024",  # a few batches of the input, so that reading takes several requests
}
LAG_MS: Final = 60_000
SESSION_MARGIN_MS: Final = 1_000
QUIESCE_MS: Final = 1_000_000
"""After a run, the brokers' clock is advanced by this many milliseconds so that open transactions time out. It is longer than
transaction.max.timeout.ms (15 minutes)."""
CLUSTER_SETTINGS: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.session.timeout.ms": "60000",  # only a script decides which broker is fenced, not a busy machine
    "replica.lag.time.max.ms": str(LAG_MS),  # and which replica falls out of the ISR
    "replica.fetch.wait.max.ms": "50",  # interval of followers' fetches when there is nothing new
}
FOLLOWERS: Final = "followers"
"""The name of the fault rule that stops replication: it holds the Fetch requests of the followers."""
BROKERS: Final = 3
LEADER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 1, 2, 3
"""In a cluster in this process: the id of the broker that leads the input and output topics, of the group coordinator, and of the
transaction coordinator."""

FaultTarget = InProcessBroker | InProcessGateway
"""An object on which fault rules are loaded and which records the requests of the program under test: a broker in this process, or the
gateway in front of a cluster."""


class Deployment(ABC):
    """The brokers that the program under test uses in one run of `ottla verify`. Fault rules are loaded on `fault_targets`: the brokers, or
    the gateway (a proxy) in front of the user's cluster, which receive the program's requests. `verifier_client` sends the requests of
    `ottla verify` itself."""

    fault_targets: Sequence[FaultTarget]
    verifier_client: VerifierClient
    other_client_ids: frozenset[str] = frozenset({VERIFIER_CLIENT})
    """Client ids of `ottla verify` itself and of brokers. Requests with these ids are not counted, and faults do not hit them."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The bootstrap servers (`host:port,…`) that are given to the program under test."""

    @property
    def sends(self) -> list[Send]:
        """All batches that producers have sent since `watch` was called, each with its acknowledgement. They include the batches of `ottla
        verify` itself."""
        return [send for target in self.fault_targets for send in list(target.history.sends)]

    @property
    def reads(self) -> list[Read]:
        """All Fetch responses with records that consumers have received since `watch` was called."""
        return [read for target in self.fault_targets for read in list(target.history.reads)]

    @abstractmethod
    def start(self) -> None:
        """Start all brokers, or the gateway to the user's cluster. Raises StartError or OSError if that fails; then nothing is left
        running."""

    def renamed(self, program: Program) -> Program:
        """Return `program` with the names that its topics and group have in this run. On a user's cluster, the names get a prefix that is
        different in each run; on brokers in this process, they are unchanged."""
        return program

    def common_name(self, topic: str) -> str:
        """Return `topic` without the prefix that topic names have in this run on a user's cluster, so that topics of different runs can be
        compared. On brokers in this process, there is no prefix."""
        return topic

    def own_name(self, topic: str) -> str:
        """Return `topic` with the prefix that topic names have in this run on a user's cluster; the inverse of `common_name`. On brokers in
        this process, there is no prefix."""
        return topic

    def foreign_name_problem(self) -> str | None:
        """Return an error message if the program under test has used a topic, group or transactional id that does not belong to this run,
        else None. Only a user's cluster is checked, because other programs may use it, too."""
        return None

    @abstractmethod
    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with this number of partitions. Raises Rejected if the broker rejects the request."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """Return the partition's log end offset."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return the brokers' time in milliseconds since 1970-01-01 UTC."""

    @abstractmethod
    def pass_time(self, ms: int) -> None:
        """Advance the brokers' clock by `ms` milliseconds. Raises RuntimeError for a user's cluster, whose clock cannot be advanced."""

    def expire_members(self, session_ms: int) -> None:
        """Let the membership of all group members expire, by advancing the brokers' clock by more than their session timeout, `session_ms`.
        On a user's cluster, whose clock cannot be moved, remove the members instead."""
        self.pass_time(session_ms + SESSION_MARGIN_MS)

    def watch(self, observer: RequestObserver) -> None:
        """From now on, record what clients send and receive (see `sends` and `reads`), and pass each request and its response to
        `observer`."""
        observer.other_client_ids = self.other_client_ids
        for target in self.fault_targets:
            target.record()
            target.call(partial(_observe, observer, target.script))

    def fault(self, rule: str) -> FaultRule:
        """Load a fault rule (text as in docs/faults.md) on all brokers, or on the gateway, and return it. Raises FaultSyntax for an invalid
        text."""
        made = parse_rule(rule)
        for target in self.fault_targets:
            target.faults.add(made)
        return made

    def release(self, name: str) -> None:
        """Release the requests and responses that the fault rule named `name` holds, on all brokers, or on the gateway."""
        for target in self.fault_targets:
            if target.is_up and any(rule.name == name for rule in target.faults.rules):
                target.faults.release(name)

    def reset(self) -> None:
        """Remove all fault rules, and release all held requests and responses, on all brokers or the gateway."""
        for target in self.fault_targets:
            target.faults.reset()

    def held(self, name: str) -> list[int]:
        """Return the numbers (from 1) of the brokers on which the fault rule named `name` holds a request or response. For a gateway, the
        number is 1."""
        targets = enumerate(self.fault_targets, 1)
        return [number for number, each in targets if any(held.rule.name == name for held in list(each.script.held))]

    @abstractmethod
    def members(self) -> int:
        """Return the number of members in all groups that the run uses."""

    @property
    @abstractmethod
    def all_brokers_answer(self) -> bool:
        """Whether requests to all running brokers will be answered: no broker is paused or cut off, and replication is not stopped. While
        this is False, `ottla verify` sends no requests of its own, because they would block."""

    @abstractmethod
    def restart_crashed(self) -> bool:
        """If a fault rule has crashed the broker, restart it and return True, otherwise return False. A cluster and a gateway always return
        False, because fault rules can crash only a single broker in this process."""

    @abstractmethod
    def quiesce(self) -> None:
        """Bring the brokers to rest after the program under test has ended, so that the logs can be judged: restore all brokers, release
        all held requests, and let open transactions time out. Raises TimeoutError if a transaction stays open or a replica does not catch
        up."""

    @abstractmethod
    def examine(
        self, topics: Iterable[str], *, expected: Iterable[Hashable] | None = None, by: Identity = by_value, audit: bool = True
    ) -> Examined:
        """Compare what clients sent and received with the logs of `topics`. Return the anomalies, the findings of the audit, and all stored
        records.

        `by` maps a record to its identity. `expected` are the identities of which each must be readable exactly once; None: no check. With
        `audit`, also audit the logs. Raises RuntimeError, TimeoutError or OSError if the logs cannot be read.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the brokers or the gateway, in whatever state they are."""


class EmbeddedBrokers(Deployment):
    """The deployment of a run on brokers in this process. `host` is the single broker or the cluster; `brokers` lists its brokers."""

    host: InProcessBroker | InProcessCluster

    def __init__(self, host: InProcessBroker | InProcessCluster, brokers: Iterable[InProcessBroker]) -> None:
        self.host = host
        self.fault_targets = self.brokers = list(brokers)
        self.verifier_client = VerifierClient(lambda: [each.bootstrap for each in self._up])
        names = (f"broker-{number}" for number, _ in enumerate(self.brokers, 1))
        self.other_client_ids = frozenset({VERIFIER_CLIENT, *(names if len(self.brokers) > 1 else ())})

    @property
    def bootstrap(self) -> str:
        return self.host.bootstrap

    def start(self) -> None:
        for broker in self.brokers:
            broker.script.exempt_client_ids = self.other_client_ids
        self.host.start()

    def create(self, topic: str, partitions: int) -> None:
        self.host.topics.create(topic, partitions)

    def end_offset(self, topic: str, partition: int) -> int:
        return self.host.topics.end_offset(topic, partition)

    def now_ms(self) -> int:
        return self.host.clock.now_ms()

    def pass_time(self, ms: int) -> None:
        self.host.clock.advance(ms / 1_000)

    def watch(self, observer: RequestObserver) -> None:
        super().watch(observer)
        self.host.record()

    def members(self) -> int:
        return sum(broker.call(lambda node: sum(len(each.members) for each in node.services.groups.all_groups())) for broker in self._up)

    @property
    def _up(self) -> list[InProcessBroker]:
        return [broker for broker in self.brokers if broker.is_up]


class OneBroker(EmbeddedBrokers):
    """The deployment of a run of `ottla verify` on a single broker, which runs in this process."""

    host: InProcessBroker

    def __init__(self, directory: Path) -> None:
        self.host = InProcessBroker(directory, SETTINGS)
        super().__init__(self.host, [self.host])

    @property
    def all_brokers_answer(self) -> bool:
        return True

    def restart_crashed(self) -> bool:
        crashed = self.host.running and not self.host.is_up
        if crashed:
            self.verifier_client.close()
            self.host.restart()
        return crashed

    def quiesce(self) -> None:
        self.restart_crashed()
        self.reset()
        self.pass_time(QUIESCE_MS)

    def examine(
        self, topics: Iterable[str], *, expected: Iterable[Hashable] | None = None, by: Identity = by_value, audit: bool = True
    ) -> Examined:
        return verdict.examine(self.host, self.host.history, topics, expected=expected, by=by, audit=audit)

    def stop(self) -> None:
        self.verifier_client.close()
        if self.host.running:
            self.host.stop()


class Cluster(EmbeddedBrokers):
    """The deployment of a run of `ottla verify` on a cluster of three brokers and a controller, all in this process."""

    host: InProcessCluster

    def __init__(self, directory: Path, brokers: int) -> None:
        self.host = InProcessCluster(brokers, directory, {**SETTINGS, **CLUSTER_SETTINGS})
        super().__init__(self.host, self.host.brokers.values())
        self._followers_stopped = False

    def start(self) -> None:
        super().start()
        try:
            for kind, topic, number in (
                (BY_GROUP, CONSUMER_OFFSETS, GROUP_COORDINATOR),
                (BY_TRANSACTION, TRANSACTION_STATE, TRANSACTION_COORDINATOR),
            ):
                self.verifier_client.coordinator(kind, VERIFIER_CLIENT)()
                self.host.move_leader(topic, 0, number)
        except BaseException:
            self.stop()
            raise

    def create(self, topic: str, partitions: int) -> None:
        super().create(topic, partitions)
        for index in range(partitions):
            if self.host.leader_of(topic, index) != LEADER:
                self.host.move_leader(topic, index, LEADER)

    @property
    def all_brokers_answer(self) -> bool:
        return not (self._followers_stopped or self.host.is_cut or any(broker.paused for broker in self.brokers))

    def restart_crashed(self) -> bool:
        return False

    def quiesce(self) -> None:
        cluster = self.host
        cluster.heal()
        for number, broker in cluster.brokers.items():
            if broker.paused:
                cluster.resume(number)
            elif not broker.is_up:
                cluster.restart(number)
        self.resume_followers()
        self._wait_in_sync()
        self.pass_time(QUIESCE_MS)
        self._wait_in_sync()
        cluster.wait_until(self._nothing_is_open, "all transactions have ended")

    def examine(
        self, topics: Iterable[str], *, expected: Iterable[Hashable] | None = None, by: Identity = by_value, audit: bool = True
    ) -> Examined:
        there: Collection[str] = set(topics).intersection(self.host.topic_names)
        return cluster_verdict.examine(self.host, there, expected=expected, by=by, audit=audit)

    def stop(self) -> None:
        self.verifier_client.close()
        self.host.kill_all()

    # --- actions of scripts ---------------------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """Kill the broker with this number, as SIGKILL does, and let the controller fence it at once."""
        self.host.kill(number)
        self.host.fence(number)
        self._followers_stopped = False

    def stop_followers(self, leader: int) -> None:
        """Stop the replication from the broker `leader`: hold the Fetch requests of all its followers."""
        self._followers_stopped = True
        self.brokers[leader - 1].faults.add(f"hold-request:api=Fetch,client_id=broker-*,name={FOLLOWERS}")
        others = len(self.brokers) - 1
        self.host.wait_until(lambda: self._held_fetches(leader) == others, "all followers are stopped")

    def resume_followers(self) -> None:
        """Resume the replication that `stop_followers` stopped: remove all fault rules, and restore replica.lag.time.max.ms, which
        `shrink_isr_to` has set to 0."""
        self.reset()
        for broker in self._up:
            broker.call(_restore_replica_lag)
        self._followers_stopped = False

    def shrink_isr_to(self, leader: int) -> None:
        """Stop the replication from the broker `leader`, and shrink the ISR of each partition that it leads to this broker alone, as
        happens after `replica.lag.time.max.ms`."""
        self.stop_followers(leader)
        broker = self.brokers[leader - 1]
        broker.call(_shrink_isrs)
        self.host.wait_until(lambda: broker.call(_is_only_isr_member), f"broker {leader} is the only ISR member, and knows it")

    def replace(self, leader: int) -> None:
        """Pause the broker `leader` until other brokers lead its partitions. Then resume it without a connection to the controller, so that
        it still considers itself the leader."""
        cluster = self.host
        cluster.pause(leader)
        cluster.isolate_from_controller(leader)
        cluster.fence(leader)
        cluster.wait_until(lambda: not self._leads(leader), f"others lead the partitions of broker {leader}")
        cluster.resume(leader)

    def ends_of(self, number: int) -> dict[TopicPartition, int]:
        """Return the log end offset of each partition that the broker with this number considers itself to lead."""
        return self.brokers[number - 1].call(
            lambda node: {(each.topic, each.index): each.log.log_end_offset for each in node.services.partitions if each.leads}
        )

    def acked_by(self, number: int) -> int:
        """Return the number of batches that the broker with this number has acknowledged to producers."""
        return sum(send.acked for send in list(self.brokers[number - 1].history.sends))

    def _held_fetches(self, number: int) -> int:
        return sum(held.rule.name == FOLLOWERS for held in list(self.brokers[number - 1].script.held))

    def _leads(self, number: int) -> bool:
        """Return whether the broker with this number leads any partition, according to the controller."""
        topics = self.host.controller.image.topics.values()
        return any(each.leader == number for topic in topics for each in topic.partitions.values())

    def _wait_in_sync(self) -> None:
        for topic in self.host.topic_names:
            self.host.wait_in_sync(topic)

    def _nothing_is_open(self) -> bool:
        return all(
            broker.call(
                lambda node: all(
                    not each.leads or each.log.last_stable_offset >= each.log.log_end_offset for each in node.services.partitions
                )
            )
            for broker in self._up
        )


def _shrink_isrs(node: Broker) -> None:
    """Remove all followers from the ISR of each partition that the broker `node` leads, as if no follower had ever fetched. The clock is
    not advanced for this, because pending requests of clients would then time out, too."""
    for others, partition in [(each.replica.leadership, each) for each in node.services.partitions if each.leads]:
        others.lag_max_ms = 0
        others.followers = {number: Progress() for number in others.followers}
        partition.maybe_shrink_isr()


def _is_only_isr_member(node: Broker) -> bool:
    return all(each.replica.leadership.in_sync.committed == {node.settings.node_id} for each in node.services.partitions if each.leads)


def _restore_replica_lag(node: Broker) -> None:
    for partition in node.services.partitions:
        partition.replica.leadership.lag_max_ms = LAG_MS


def _observe(observer: RequestObserver, script: Faults, _: Broker) -> None:
    script.observe(observer)


def deployment_of(brokers: int, directory: Path) -> EmbeddedBrokers:
    """Make the deployment of a run: one broker if `brokers` is 1, otherwise a cluster of this many brokers. Their data directories are in
    `directory`."""
    return OneBroker(directory) if brokers == 1 else Cluster(directory, brokers)
