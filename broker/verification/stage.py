"""One run of a scenario of `ottla verify`: fresh brokers, the program under test, and a script that causes faults at exact moments.

Rules:
- A script is a generator: it yields a condition, and continues when the condition is true. It causes a fault while the broker holds a
  response or a step of a coordinator, so that the moment is exact and does not depend on timing.
- An instance of the program that fails by itself is restarted, as a supervisor would.
- No process of the program outlives the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

from ottla.broker.faults.rules import FaultRule
from ottla.broker.testing.contents import Stored
from ottla.broker.testing.in_process import InProcessBroker
from ottla.broker.txns.transaction import EPOCH_MAX
from ottla.broker.verification import program as programs
from ottla.broker.verification.deployment import Cluster, Deployment, OneBroker, deployment_of
from ottla.broker.verification.input_data import (
    PARTITIONS,
    any_group_is_done,
    configure_share_group,
    fill,
    fill_last,
    find_transaction_coordinator,
    share_group_is_done,
)
from ottla.broker.verification.program import CannotStart, Instance, Program, Role
from ottla.broker.verification.request_observer import RequestObserver

POLL_S = 0.01
"""The time in seconds between two checks of the script's condition and of the program's processes."""
PROGRESS_POLL_S = 0.1
"""The time in seconds between two checks whether the program's group has read its input."""
GRACE_S = 5.0
"""How many seconds the program under test has to end after SIGTERM, before it gets SIGKILL."""
_BUMPS_A_TURN = 500
"""The number of producer epochs that one call on the broker's event loop uses up. Between the calls, the loop serves clients."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A condition that a scenario's script waits for; `holds` returns whether it is true. If the program under test finishes before that,
    the run ends and the wait is abandoned. With `must_hold`, the run continues until the condition is true, which is certain to happen."""

    holds: Callable[[], bool]
    must_hold: bool = False


Script = Iterator[Wait]
NEVER: Final = Wait(lambda: False)
"""A condition that is never true. A script yields it when it cannot cause its fault: the run then ends when the program ends, and the
outcome is *not met* (the fault did not occur)."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of a run: `timeout_s` is the time limit in seconds, and `restarts` how often the program under test may be restarted after
    it has failed."""

    timeout_s: float = 60.0
    restarts: int = 3
    late_ms: int = 3_000
    """How long, in ms, a scenario delays an acknowledgement. It should be longer than the program's request timeout."""


@dataclass(slots=True)
class Ending:
    """How a run of a scenario ended. `fault_occurred`: the script finished, so the scenario's fault occurred. `overdue`: the time limit was
    reached. `gave_up`: the program under test failed again after its last permitted restart."""

    fault_occurred: bool = False
    overdue: bool = False
    gave_up: bool = False
    restarts: int = 0
    failures: list[str] = field(default_factory=list)
    """For each failed instance of the program under test: a text with its exit code and the end of its error output."""
    seconds: float = 0.0


class Stage:
    """One run of the program under test, used as a context manager. It runs on `deployment`; without one, on `brokers` brokers of this
    process (1 or 3). `directory` gets the brokers' data and the program's output."""

    def __init__(
        self, program: Program, directory: Path, limits: RunLimits, brokers: int = 1, deployment: Deployment | None = None
    ) -> None:
        self.directory = directory.resolve()  # the program may change its working directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.limits = limits
        self.deployment: Deployment = deployment or deployment_of(brokers, self.directory / "data")
        self.program = program = self.deployment.renamed(program)
        self.observer = RequestObserver()
        self.instances: list[Instance] = []
        self.ending = Ending()
        self.may_be_lost: list[Stored] = []
        """Records that an unclean election may lose although they were acknowledged, because the cluster's settings allow it. Their loss is
        not the program's fault."""
        self._ends: dict[int, int] = {}
        self._checked_at = 0.0
        self._last_input_written = program.role is Role.PRODUCER
        self._all_read = False

    def __enter__(self) -> Stage:
        self.deployment.start()
        try:
            self._set()
        except BaseException:
            self.deployment.stop()
            raise
        return self

    def _set(self) -> None:
        """Create the input and output topics, write the input records, and start to observe the requests of the program under test."""
        for topic in (self.program.input, self.program.output):
            self.deployment.create(topic, PARTITIONS)
        if self.program.role is not Role.PRODUCER:
            fill(self.deployment.verifier_client, self.program.input, self.program.records, self.deployment.now_ms())
            self._ends = self._input_ends()
        if self.program.role is Role.SHARE_CONSUMER:
            configure_share_group(self.deployment.verifier_client, self.program.group)
        self.deployment.watch(self.observer)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for instance in self.instances:
            instance.kill()
        self.deployment.stop()

    @property
    def broker(self) -> InProcessBroker:
        """The broker of this run, if it is a run on a single broker in this process. Raises AssertionError for any other run."""
        assert isinstance(self.deployment, OneBroker), "this scenario needs a broker of this process"
        return self.deployment.host

    @property
    def cluster(self) -> Cluster:
        """The deployment of this run, if it is a run on a cluster in this process. Raises AssertionError for any other run."""
        assert isinstance(self.deployment, Cluster), "this scenario needs a cluster"
        return self.deployment

    # --- actions of scripts -----------------------------------------------------------------------------------------------------

    def start(self, number: int = 1) -> Instance:
        """Start the program under test as instance `number`, and return the new process. Instances with different numbers run side by
        side."""
        started = programs.start(self.program, self.deployment.bootstrap, self.directory, number, len(self.instances) + 1)
        self.instances.append(started)
        return started

    def running(self, number: int = 1) -> list[Instance]:
        """Return the running processes of the program under test that have this instance number."""
        return [instance for instance in self.instances if instance.number == number and instance.exit_code is None]

    def fault(self, rule: str) -> FaultRule:
        """Load a fault rule, given as a text as in docs/faults.md, on all brokers, and return it. Raises FaultSyntax for an invalid
        text."""
        return self.deployment.fault(rule)

    def release(self, name: str) -> None:
        """Release the requests and responses that the fault rule named `name` holds."""
        self.deployment.release(name)

    def pass_time(self, ms: int) -> None:
        """Advance the brokers' clock by `ms` milliseconds."""
        self.deployment.pass_time(ms)

    def expire_members(self, session_ms: int) -> None:
        """Let the group memberships of the program under test expire. `session_ms` is their session timeout in ms; if it is 0, the program
        is in no group, and nothing is done."""
        if session_ms:
            self.deployment.expire_members(session_ms)

    def exhaust_epoch(self, transactional_id: str, left: int) -> int:
        """Use up producer epochs of a transactional id until only `left` epochs remain before the coordinator must assign a new producer
        id. Return the present producer id."""

        async def take(turns: int) -> tuple[int, int]:
            txns = self.broker.broker.services.txns
            for _ in range(turns):
                answer = txns.init_producer_id(transactional_id, 60_000, None)
                found = answer if not hasattr(answer, "__await__") else await answer
                if found.producer_epoch >= EPOCH_MAX - 1 - left:
                    break
            return found.producer_epoch, found.producer_id

        find_transaction_coordinator(self.deployment.verifier_client, transactional_id)
        epoch = -1
        while epoch < EPOCH_MAX - 1 - left:
            epoch, producer_id = self.broker.call_async(take(_BUMPS_A_TURN))
        return producer_id

    def members(self) -> int:
        """Return the number of members in all groups that the run uses."""
        return self.deployment.members()

    # --- conditions of scripts --------------------------------------------------------------------------------------------------

    def held(self, name: str) -> Wait:
        """Return a condition for the script to wait for: the fault rule named `name` holds a request or response."""
        return Wait(lambda: bool(self.deployment.held(name)))

    def hit(self, *rules: FaultRule) -> Wait:
        """Return a condition for the script to wait for: each of these fault rules has taken effect at least once."""
        return Wait(lambda: all(rule.hits for rule in rules))

    def last_input_written(self) -> Wait:
        """Return a condition for the script to wait for: the last records of the input topic have been written. They are written when the
        program under test has read all others. For a producer, which has no input, the condition is always true."""
        return Wait(lambda: self._last_input_written)

    def all_done(self) -> Wait:
        """Return a condition for the script to wait for: the program's group has read the whole input, or all instances have ended.
        Instances that the script has paused or killed do not count."""
        return Wait(self._is_done, must_hold=True)

    def ended(self, instances: Iterable[Instance], within_s: float) -> Wait:
        """Return a condition for the script to wait for: these instances have ended, or `within_s` seconds have passed since the call."""
        until = time.monotonic() + within_s
        return Wait(lambda: all(each.exit_code is not None for each in instances) or time.monotonic() >= until, must_hold=True)

    def now(self) -> float:
        """Return the real time in seconds of a monotonic clock, for a script's own time limits."""
        return time.monotonic()

    # --- the run ----------------------------------------------------------------------------------------------------------------

    def play(self, script: Script) -> Ending:
        """Run the script and the program under test until both are finished or a limit is reached, and return how the run ended. If the
        script still waits for its fault when the last input records are written, the fault counts as not having occurred. Raises
        CannotStart if the program uses topics, groups or ids that do not belong to this run."""
        began = time.monotonic()
        wait = next(script, None)
        while True:
            self.deployment.restart_crashed()
            self._check_group(script_is_done=wait is None)
            if wait is not None and wait.holds():
                wait = next(script, None)
                continue
            if self._waits_for_last_input(wait):
                self.deployment.reset()
                wait = NEVER
            self._reject_foreign_names()
            self._supervise()
            if self.ending.gave_up or ((wait is None or not wait.must_hold) and self._is_done()):
                break
            if time.monotonic() - began > self.limits.timeout_s:
                self.ending.overdue = True
                break
            time.sleep(POLL_S)
        self.ending.fault_occurred = wait is None
        self.observer.work_is_done = True
        self._end_all()
        self._reject_foreign_names()  # a program can end right after the request
        self.ending.seconds = time.monotonic() - began
        return self.ending

    def _reject_foreign_names(self) -> None:
        problem = self.deployment.foreign_name_problem()
        if problem is not None:
            raise CannotStart(problem)

    def quiesce(self) -> None:
        """Bring the brokers to rest after the program under test has ended, so that the logs can be judged: restore brokers, release all
        held requests and responses, and let open transactions time out."""
        self.deployment.quiesce()

    def _supervise(self) -> None:
        for instance in self.instances:
            code = instance.exit_code
            if instance.may_end or code in (None, 0):
                continue
            instance.may_end = True
            printed = " / ".join(instance.error_tail()[-3:]) or "it printed no error"
            self.ending.failures.append(f"instance {instance.number} ended with exit code {code}: {printed}")
            if self.ending.restarts == self.limits.restarts:
                self.ending.gave_up = True
                return
            self.ending.restarts += 1
            self.start(instance.number)

    def _is_done(self) -> bool:
        """Return whether the program's group has read the whole input, or all instances have ended. Instances that the script has paused or
        killed do not count."""
        working = [instance for instance in self.instances if not instance.may_end]
        return self._all_read or all(instance.exit_code is not None for instance in working)

    def _waits_for_last_input(self, wait: Wait | None) -> bool:
        all_input_written = self.program.role is not Role.PRODUCER and self._last_input_written
        return all_input_written and wait is not None and wait is not NEVER and not wait.must_hold

    def _check_group(self, *, script_is_done: bool) -> None:
        """Check, at most every PROGRESS_POLL_S seconds, whether the program's group has read its input to the end. When it has, or when the
        script is finished, write the last records of the input."""
        if self.program.role is Role.PRODUCER or self._all_read or time.monotonic() < self._checked_at + PROGRESS_POLL_S:
            return
        if not self.deployment.all_brokers_answer:
            return
        self._checked_at = time.monotonic()
        try:
            read = self._is_read()
            if self._last_input_written:
                self._all_read = read
            elif read or script_is_done:
                self._write_last_input()
        except OSError:  # a broker is down, as the scenario wants
            self.deployment.verifier_client.close()

    def _is_read(self) -> bool:
        client, topic = self.deployment.verifier_client, self.program.input
        if self.program.role is Role.SHARE_CONSUMER:
            return share_group_is_done(client, self.program.group, topic)
        return any_group_is_done(client, sorted(self.observer.groups), topic, self._ends)

    def _write_last_input(self) -> None:
        self.observer.work_is_done = True
        for partition, end in self._input_ends().items():
            if end == self._ends[partition]:  # else they were written before the broker crashed
                records, now_ms = self.program.records, self.deployment.now_ms()
                fill_last(self.deployment.verifier_client, self.program.input, partition, records, now_ms)
        self._ends = self._input_ends()
        self._last_input_written = True

    def _input_ends(self) -> dict[int, int]:
        return {partition: self.deployment.end_offset(self.program.input, partition) for partition in range(PARTITIONS)}

    def _end_all(self) -> None:
        """Stop all instances of the program under test, so that none writes while the run is judged. Consumers first get SIGTERM and time
        to shut down; producers and paused instances are killed at once."""
        for instance in self.instances:
            if instance.paused or self.program.role is Role.PRODUCER:
                instance.kill()
        for instance in self.instances:
            if instance.exit_code is None and not instance.end(GRACE_S):
                self.ending.failures.append(f"instance {instance.number} did not end within {GRACE_S:.0f} s of SIGTERM")
        for instance in self.instances:
            instance.kill()
