"""The demo's three acts (experiments): the faults of the brokers, and the load meanwhile.

Whether an act loses records depends on its faults only, never on timing. In the second act, both followers are paused until the leader
alone has acknowledged records that no earlier fetch of a follower can have returned. In the third, the broker that will become leader was
down while all records were written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.cluster_mixed.replicas import high_watermarks
from client_compat.demo_cluster.record import Event, Kind, PartitionView, Recording
from client_compat.demo_cluster.watch import Watch
from client_compat.kafka.cluster import ALL_OTTLA, FETCH_WAITS_S, Cluster, Node, running
from client_compat.kafka.cluster import Kind as Whose
from client_compat.matrix.truth import until
from client_compat.support import raised_epochs
from client_compat.support.load import CLIENTS, Load, RunningLoad, under
from client_compat.support.verdict import AckVerdict, judge

RATE_MAX = 150
"""The maximum number of records that each client sends a second."""
FLUSH_S = 60.0
SERVED_S = 60.0
ALONE = 60
"""How many records the leader of the second act must acknowledge while both followers are paused, before it is killed. These records are
lost."""
POLL_S = 0.02
QUICK_SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "250"}
LONG_SESSION = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
"""Broker settings for the act that pauses both followers of the leader (`kill_leader_ahead_of_followers`). The session timeout is longer
than this pause, because a follower whose session expires is fenced and leaves the ISR."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of the demo. `kills`: how many leaders the first act kills. `calm_s`: for how many seconds the cluster runs undisturbed
    between two faults, so that a viewer can follow."""

    kills: int = 3
    calm_s: float = 1.0


FULL, SHORT = Pace(), Pace(kills=1, calm_s=0.3)


@dataclass(slots=True)
class Stage:
    """The running cluster, clients and recording of one act (an experiment of the demo). Its methods inject faults, or wait for a
    condition."""

    cluster: Cluster
    watch: Watch
    load: RunningLoad
    pace: Pace
    dead: list[int] = field(default_factory=list)
    """The ids of brokers that were killed and are not restarted."""

    def run_undisturbed(self, seconds: float | None = None) -> None:
        """Let the cluster run without new faults for `seconds` (None: for the time that `pace` specifies). Raises `RunFailed` if a client
        gives up."""
        end = time.monotonic() + (self.pace.calm_s if seconds is None else seconds)
        while time.monotonic() < end:
            self.load.check()
            time.sleep(POLL_S)

    def kill(self, broker: Node, why: str) -> None:
        leads = [str(index) for index, one in enumerate(self.watch.recording.latest.partitions) if one.leader == broker.node_id]
        broker.process.kill()
        self.watch.record(Kind.KILL, broker.node_id, f"broker {broker.node_id} is killed, {why.format(', '.join(leads) or 'nothing')}")

    def stop(self, broker: Node) -> None:
        broker.stop()
        self.watch.record(Kind.STOP, broker.node_id, f"broker {broker.node_id} is stopped")

    def pause(self, brokers: Sequence[Node]) -> None:
        for broker in brokers:
            self.watch.paused.add(broker.node_id)
            broker.process.pause()
            self.watch.record(Kind.PAUSE, broker.node_id, f"broker {broker.node_id} stands still, and copies nothing")

    def resume(self, brokers: Sequence[Node]) -> None:
        for broker in brokers:
            broker.process.resume()
            self.watch.paused.discard(broker.node_id)
            self.watch.record(Kind.RESUME, broker.node_id, f"broker {broker.node_id} goes on")

    def start(self, broker: Node) -> None:
        self.watch.record(Kind.START, broker.node_id, f"broker {broker.node_id} is started again")
        broker.start()

    def wait_served(self) -> None:
        """Wait until every client has received a further acknowledgement. Raises `TruthFailed` if that takes too long, `RunFailed` if a
        client gives up."""
        before = list(self.load.answered)
        self.until("every client is answered", lambda: all(now > then for now, then in zip(self.load.answered, before, strict=True)))

    def wait_led(self, holds: Callable[[PartitionView], bool], what: str) -> None:
        """Wait until `holds` is true of every partition in the newest sample of the cluster's state. Raises `TruthFailed` with the
        description `what` if that takes too long, `RunFailed` if a client gives up."""
        self.until(what, lambda: bool(seen := self.watch.recording.latest.partitions) and all(map(holds, seen)))

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until `holds` is true. Raises `TruthFailed` with `what` if it takes too long, `RunFailed` if a client gives up."""
        for _ in until(what, SERVED_S):
            self.load.check()
            if holds():
                return


@dataclass(frozen=True, slots=True)
class Act:
    """One experiment of the demo: faults of brokers under load. `play` injects the faults into a running cluster. It returns when the last
    fault is over and the clients are served again."""

    key: str
    title: str
    what: str
    partitions: int
    play: Callable[[Stage], None]
    careless: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=lambda: QUICK_SESSION)
    stopped_first: int | None = None
    """The id of a broker that is stopped before anything is written; None if all brokers run."""


def has_other_leader(broker: Node) -> Callable[[PartitionView], bool]:
    """Return a condition for `Stage.wait_led`: the partition has another leader than `broker`, and `broker` is not in its ISR."""
    return lambda one: one.leader not in {None, broker.node_id} and broker.node_id not in one.in_sync


def kill_leaders(stage: Stage) -> None:
    """The first act: kill one partition leader after the other, and restart each."""
    for broker in stage.cluster.brokers[: stage.pace.kills]:
        stage.run_undisturbed()
        stage.kill(broker, "leader of partition {}")
        stage.wait_led(has_other_leader(broker), "every partition has a living leader")
        stage.wait_served()
        stage.start(broker)
        stage.cluster.settle()
    stage.run_undisturbed()


def kill_leader_ahead_of_followers(stage: Stage) -> None:
    """The second act: pause the followers, let the leader alone acknowledge records, and kill the leader before the followers resume."""
    stage.run_undisturbed()
    leader = stage.cluster.broker(stage.watch.recording.latest.partitions[0].leader or 0)
    followers = [broker for broker in stage.cluster.brokers if broker is not leader]
    stage.pause(followers)
    stage.run_undisturbed(FETCH_WAITS_S)
    before = sum(stage.load.answered)
    stage.until("the leader acknowledges alone", lambda: sum(stage.load.answered) >= before + ALONE)
    stage.kill(leader, "with records that nobody else has")
    stage.dead.append(leader.node_id)
    stage.resume(followers)
    stage.wait_led(has_other_leader(leader), "a follower leads")
    stage.wait_served()
    stage.run_undisturbed()


def elect_empty_replica(stage: Stage) -> None:
    """The third act: kill the two brokers that have all records, and let the third one, which has none of them, become leader by an unclean
    election."""
    late = stage.cluster.broker(LATE)
    first, second = [broker for broker in stage.cluster.brokers if broker is not late]
    stage.wait_served()
    stage.run_undisturbed()
    stage.load.hold()
    stage.until("everything is acknowledged", lambda: list(stage.load.answered) == list(stage.load.sent))
    stage.until("both have noted on disk that all of it is committed", lambda: _all_committed(stage, [first, second]))
    stage.run_undisturbed()
    stage.watch.record(Kind.NOTE, None, "the clients pause: all that they sent is acknowledged, on two disks, and committed")
    for broker in (first, second):
        stage.kill(broker, "and has everything")
    stage.dead.append(first.node_id)
    stage.start(late)
    stage.wait_led(lambda one: one.leader == LATE, "the late broker leads")
    stage.start(second)
    # It does not matter who leads then: on a busy machine the late one may have been fenced for a moment, and the other one elected.
    stage.wait_led(lambda one: {LATE, second.node_id} <= set(one.in_sync), "a second replica is in sync")
    stage.watch.record(Kind.NOTE, None, "the clients go on, with offsets that were given once already")
    stage.load.resume()
    stage.wait_served()
    stage.run_undisturbed()


def _all_committed(stage: Stage, brokers: Sequence[Node]) -> bool:
    marks = [high_watermarks(broker.directory).get(f"{stage.watch.topic}-0") for broker in brokers]
    return all(mark == sum(stage.load.answered) for mark in marks)


LATE = 3
ACTS = (
    Act(
        "safe",
        "acks=all, idempotent, two in sync at least",
        "Each broker is killed while it leads and clients write. Nothing that was acknowledged may be missing, nothing may be there twice.",
        3,
        kill_leaders,
    ),
    Act(
        "alone",
        "acks=1",
        "The followers stand still (SIGSTOP), the leader acknowledges alone, and is killed before they go on. What only it had is gone.",
        1,
        kill_leader_ahead_of_followers,
        careless=True,
        settings=LONG_SESSION,
    ),
    Act(
        "unclean",
        "acks=all, idempotent, unclean election",
        f"Broker {LATE} is stopped; two have every record and acknowledge it, as they must. Both are killed, and broker {LATE}, which has "
        "none of it, comes back and may lead: unclean.leader.election.enable=true.",
        1,
        elect_empty_replica,
        config={"unclean.leader.election.enable": "true"},
        stopped_first=LATE,
    ),
)


@dataclass(slots=True)
class FinishedAct:
    """A finished act (experiment) of the demo: all brokers have stopped, and their directories are as the act left them. `leaders`: ids of
    the partitions' leaders at the end. `dead`: ids of the killed brokers that were not restarted. `acks`: the comparison of the
    acknowledgements with what a consumer received."""

    act: Act
    cluster: Cluster
    load: Load
    recording: Recording
    acks: AckVerdict
    leaders: list[int]
    dead: list[int]
    seconds: float


def play(
    act: Act,
    directory: Path,
    pace: Pace,
    on_sample: Callable[[Act, Recording], None] = lambda act, recording: None,
    on_event: Callable[[Act, Recording, Event], None] = lambda act, recording, event: None,
) -> FinishedAct:
    """Run the act in a new cluster in `directory`, compare the clients' acknowledgements with the records that a consumer receives
    afterwards, and return the finished act. `on_sample` and `on_event` are called for each new sample and event of the recording. Raises
    `BrokerFailed` if a broker fails, `RunFailed` if a client gives up, `TruthFailed` if the cluster does not reach an expected state in
    time."""
    began = time.monotonic()
    cluster = Cluster(directory, ALL_OTTLA, settings=act.settings, controller_kind=Whose.OTTLA, options=("--log-level", "debug"))
    recording = Recording(CLIENTS)
    watch = Watch(
        cluster, act.key, act.partitions, recording, lambda found: on_sample(act, found), lambda found, event: on_event(act, found, event)
    )
    with running(cluster):
        cluster.create_topic(act.key, act.partitions, act.config)
        load = Load(cluster.bootstrap, act.key, directory, RATE_MAX, CLIENTS, act.careless)
        with watch.looking(), _loaded(act, watch, load, pace) as stage:
            act.play(stage)
            stage.load.finish(FLUSH_S)
            acks = judge(load, act.partitions)
        leaders = [one.leader for one in recording.latest.partitions]
        cluster.stop()
    raised_epochs.excuse(acks, cluster.brokers[0].directory, act.key)
    return FinishedAct(
        act, cluster, load, recording, acks, [one for one in leaders if one is not None], stage.dead, time.monotonic() - began
    )


@contextmanager
def _loaded(act: Act, watch: Watch, load: Load, pace: Pace) -> Iterator[Stage]:
    """Run the act's clients while the context lasts, and yield the stage when every client has received an acknowledgement. If the act
    needs a stopped broker (`stopped_first`), it is stopped before the clients send anything."""
    with under(load) as running_load:
        stage = Stage(watch.cluster, watch, running_load, pace)
        running_load.hold()
        if act.stopped_first is not None:
            stopped = watch.cluster.broker(act.stopped_first)
            stage.stop(stopped)
            stage.wait_led(has_other_leader(stopped), "the others lead without it")
        watch.load = running_load
        running_load.resume()
        stage.wait_served()
        yield stage
