"""Judges one run of `ottla verify`: which guarantees were broken, with the offsets that prove it.

Rules:
- Only the baseline run (the run without faults) defines what the program under test should achieve.
- A guarantee counts as broken only if there is evidence: a record, an offset, an exit code.
- If the fault of a scenario did not occur, the run does not prove that any guarantee held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla.broker.testing.anomalies import Anomaly, Identity, by_key, by_value
from ottla.broker.testing.contents import Stored, Visibility
from ottla.broker.testing.explanation import counted, explain
from ottla.broker.testing.verdict import Examined
from ottla.broker.verification import program as programs
from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import VERIFIER_CLIENT
from ottla.broker.verification.scenario import Baseline
from ottla.broker.verification.scenarios.transactions import EPOCH_BUMPING_END, LATE
from ottla.broker.verification.stage import Ending, Stage
from ottla.protocol.error_codes import ErrorCode

EVIDENCE_MAX: Final = 10
_READS: Final = "Does it use OTTLA_BOOTSTRAP_SERVERS, read OTTLA_INPUT as a group, and commit its offsets?"
_INTERFACE: Final = {
    Role.PRODUCER: "Does it use OTTLA_BOOTSTRAP_SERVERS, and exit when it has written OTTLA_RECORDS records?",
    Role.STREAM: _READS,
    Role.CONSUMER: _READS,
    Role.SHARE_CONSUMER: "Does it use OTTLA_BOOTSTRAP_SERVERS, read OTTLA_INPUT as the share group OTTLA_GROUP, and accept each record?",
}
"""By role of the program under test: the question that the report asks the user if the program does not finish even without faults."""
_END: Final = {Role.PRODUCER: "end", Role.SHARE_CONSUMER: "accept or reject all of {input} or end"}


class Guarantee(StrEnum):
    """A guarantee of exactly-once processing, which `ottla verify` checks in each run."""

    COMPLETE = "complete"
    """No record and no effect is missing that the program under test produced in the run without faults. An effect is a result outside
    Kafka."""
    ONCE = "once"
    """No record or effect (a result outside Kafka) occurs more often than in the run without faults, and none occurs that was not in that
    run."""
    ORDER = "order"
    """In each partition, the records of each producer are in the order in which the producer first sent them."""
    COMMITTED = "committed"
    """The program under test received no records of aborted transactions."""
    WHOLE = "whole"
    """The log is sound: `ottla audit` finds no violation in it, such as a hanging transaction, and no offset was read with two different
    contents."""
    FINISHED = "finished"
    """The program under test finished its work: a producer exited by itself; any other program committed or acknowledged all of its
    input."""


class ScenarioOutcome(StrEnum):
    """The outcome of one scenario, shown in the results table. It also determines the exit code of `ottla verify`."""

    HELD = "held"
    """The fault occurred, and all guarantees held."""
    BROKEN = "broken"
    """At least one guarantee was broken."""
    EXPOSED = "exposed"
    """A guarantee was broken, but no program that uses this client library could avoid it: the library's version of the protocol cannot
    detect the fault."""
    LOST_BY_SETTING = "lost by a setting"
    """Acknowledged records were lost because the cluster's settings allow it (an unclean election); the program under test could not avoid
    it."""
    NOT_MET = "not met"
    """The scenario's fault did not occur in the run, so the run proves nothing about the program under test."""
    DOES_NOT_APPLY = "does not apply"
    """The program under test does not use the part of Kafka that the scenario breaks, such as transactions."""
    CANNOT_RUN = "cannot run"
    """The scenario needs to stop brokers or to move their clock, which is not possible on the user's own cluster."""


_OF_ANOMALY: Final = {
    "missing": Guarantee.COMPLETE,
    "lost-write": Guarantee.COMPLETE,
    "duplicate": Guarantee.ONCE,
    "unexpected": Guarantee.ONCE,
    "nonmonotonic-send": Guarantee.ORDER,
    "G1a": Guarantee.COMMITTED,
    "inconsistent-offsets": Guarantee.WHOLE,
}


_OF_LOST: Final = frozenset({"missing", "lost-write", "inconsistent-offsets"})
"""The kinds of anomalies that an unclean election causes by itself, because it loses records. An unclean election causes no duplicates and
no reordering; if they occur, the program under test is at fault."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A guarantee that was broken in one run. `summary` says how many records or effects (results outside Kafka) are concerned;
    `explanation` describes the first of them."""

    guarantee: Guarantee
    summary: str
    explanation: str = ""
    by_setting: bool = False
    """Whether records were lost only because the cluster's settings allow it, so that no program could have avoided it."""


@dataclass(slots=True)
class Result:
    """A scenario's outcome. `happens` describes the scenario's fault, `breaches` are the broken guarantees with their evidence, `ending` is
    how the run ended, and `note` explains the outcome to the user."""

    name: str
    happens: str
    outcome: ScenarioOutcome
    note: str = ""
    breaches: list[Breach] = field(default_factory=list)
    ending: Ending = field(default_factory=Ending)

    def of(self, guarantee: Guarantee) -> Breach | None:
        """Return the first breach of this guarantee, None if the guarantee was not broken."""
        return next((breach for breach in self.breaches if breach.guarantee is guarantee), None)


def identity_of(by: str) -> Identity:
    """Return the function that maps a record to its identity, according to the option `--by`: `value`, `key`, or `json:a.b` (a field of a
    JSON value). Raises ValueError for anything else."""
    if by == "value":
        return by_value
    if by == "key":
        return by_key
    kind, _, path = by.partition(":")
    if kind != "json" or not path:
        raise ValueError(f"{by!r} identifies no records: use value, key or json:FIELD")
    return lambda _key, value: _field(value, path.split("."))


def breaches(stage: Stage, baseline: Baseline, by: Identity) -> list[Breach]:
    """Return all guarantees that were broken in the finished run `stage`, compared with `baseline`, the run without faults. `by` maps a
    record to its identity. Raises RuntimeError if the logs, or the program's effects outside Kafka, cannot be read."""
    found = stage.deployment.examine(
        {stage.deployment.own_name(each) for each in baseline.topics},
        by=by,
        expected=None if baseline.role.has_effects else baseline.achieved,
    )
    lost = _lost_by_setting(stage, found)
    broken = list(_by_guarantee(Examined([each for each in found.anomalies if not _is_of(each, lost)], found.findings, found.stored)))
    excused = [each for each in found.anomalies if _is_of(each, lost)]
    if excused:
        lost_text = f"acknowledged records or commits were lost by the election ({len(lost)} records): {counted(excused)}"
        broken.append(Breach(Guarantee.COMPLETE, lost_text, explain(excused), by_setting=True))
    if baseline.role.has_effects:
        broken += _of_effects(stage, baseline)
    broken += _aborted_data(stage)
    broken += _unfinished(
        stage, "If the program waits in its client: docs/verify.md lists calls of clients that hang (Pitfalls of clients)."
    )
    return broken


def _lost_by_setting(stage: Stage, found: Examined) -> set[tuple[str, int, int]]:
    """Return the records of `stage.may_be_lost` that the unclean election has lost, each as topic, partition and offset. A record is also
    lost if the marker that committed its transaction is missing."""
    there = {(each.topic, each.partition, each.offset): each for each in found.stored}
    return {place for each in stage.may_be_lost if not each.is_kept_by(there.get(place := (each.topic, each.partition, each.offset)))}


def _is_of(anomaly: Anomaly, lost: Set[tuple[str, int, int]]) -> bool:
    """Return whether an anomaly was caused by the loss of records. `lost` are the lost positions (topic, partition, offset): the anomaly
    must concern an acknowledged send or a read of one of them."""
    if not lost:
        return False
    sent = ((send.topic, send.partition, send.offset + delta) for send in anomaly.sends if send.acked for delta in range(len(send.records)))
    read = ((each.topic, each.partition, at) for each in anomaly.reads for _, records in each.batches for at, _ in records)
    return anomaly.kind in _OF_LOST and not lost.isdisjoint([*sent, *read])


def achieved(stage: Stage, by: Identity) -> tuple[frozenset[str], Counter[Hashable], Examined]:
    """Judge a run without faults. Return three things: the topics that the program under test wrote; how often each of its effects (results
    outside Kafka) occurred; and the anomalies.

    A program without effects outside Kafka is judged by its records: then the second result counts the identities (`by`) of all readable
    records. Raises RuntimeError if the logs or the effects cannot be read.
    """
    topics = frozenset(
        send.topic for send in stage.deployment.sends if send.client_id != VERIFIER_CLIENT and not send.topic.startswith("__")
    )
    found = stage.deployment.examine(topics, by=by)
    if stage.program.role.has_effects:
        effects: Counter[Hashable] = Counter(_effects(stage))
    else:
        effects = Counter(by(each.key, each.value) for each in found.stored if each.outcome.readable)
        effects.pop(None, None)  # records without an identity
    return frozenset(map(stage.deployment.common_name, topics)), effects, found


def undetectable_by_client(stage: Stage) -> str | None:
    """Return the reason why no program that uses this client library could have avoided the broken guarantees, or None. There is one such
    reason: a late EndTxn request, in a version before KIP-890, has ended a later transaction."""
    for end in stage.observer.ends:
        if LATE in end.faults and end.error is ErrorCode.NONE and end.version < EPOCH_BUMPING_END:
            return (
                f"the client uses EndTxn version {end.version}: the late request ended another transaction, and before version "
                f"{EPOCH_BUMPING_END} (KIP-890, transaction.version=2) the protocol cannot detect that"
            )
    return None


SETTINGS_LOST_IT: Final = (
    "this is not the program's fault: unclean.leader.election.enable=true allowed a leader that lacked acknowledged records, and "
    "min.insync.replicas=1 allowed the previous leader to acknowledge them alone. To lose nothing, set false and 2 (of 3 replicas)"
)


def baseline_breaches(stage: Stage, effects: Counter[Hashable], found: Examined) -> list[Breach]:
    """Return the guarantees that were broken in a run without any fault. `effects` counts each of the program's results outside Kafka;
    `found` has the anomalies and the audit's findings."""
    broken = list(_by_guarantee(found))
    if stage.program.role.has_effects:
        broken += _not_once(stage, effects, effects.keys())
    return [*broken, *_aborted_data(stage), *_unfinished(stage, _INTERFACE[stage.program.role])]


def _by_guarantee(found: Examined) -> Iterator[Breach]:
    for guarantee in Guarantee:
        mine = [anomaly for anomaly in found.anomalies if _OF_ANOMALY[anomaly.kind] is guarantee]
        if mine:
            yield Breach(guarantee, counted(mine), explain(mine))
    if found.findings:
        yield Breach(Guarantee.WHOLE, f"the audit finds {len(found.findings)} violations", explain([], found.findings))


def _of_effects(stage: Stage, baseline: Baseline) -> Iterator[Breach]:
    counts: Counter[Hashable] = Counter(_effects(stage))
    missing = sorted(map(str, baseline.achieved - counts.keys()))
    if missing:
        yield Breach(Guarantee.COMPLETE, f"{len(missing)} effects are missing", _listed(stage, missing))
    yield from _not_once(stage, counts, baseline.achieved)


def _not_once(stage: Stage, counts: Counter[Hashable], expected: Set[Hashable]) -> Iterator[Breach]:
    if stage.program.role is Role.SHARE_CONSUMER:
        counts = Counter(counts.keys())  # a share group is at least once: an effect may repeat, an accepted record may not
        yield from _delivered_again(stage)
    twice = sorted(f"{effect} ({count} times)" for effect, count in counts.items() if count > 1)
    strange = sorted(map(str, counts.keys() - expected))
    if twice or strange:
        yield Breach(Guarantee.ONCE, f"{len(twice)} effects occur twice, {len(strange)} are unexpected", _listed(stage, twice + strange))


def _delivered_again(stage: Stage) -> Iterator[Breach]:
    """Yield a broken guarantee if the broker delivered a record to a share group again although the group had accepted the record and the
    broker had confirmed this."""
    again = sorted(stage.observer.delivered_again)
    if again:
        lines = [f"  {topic}-{partition}@{offset}" for _, topic, partition, offset in again[:EVIDENCE_MAX]]
        yield Breach(Guarantee.ONCE, f"the broker delivered {len(again)} accepted records again", "\n".join(lines))


def _effects(stage: Stage) -> list[str]:
    return programs.effects(stage.program, stage.deployment.bootstrap, stage.directory, stage.instances)


def _listed(stage: Stage, effects: Sequence[str]) -> str:
    """Return a text with one line for each of the first EVIDENCE_MAX `effects` (results outside Kafka). If an effect is the value of an
    input record, its line names the record's position."""
    stored = _input(stage)
    places = {each.value.decode(errors="replace"): each.where for each in stored if each.value is not None}
    lines = []
    for effect in effects[:EVIDENCE_MAX]:
        where = places.get(effect.split(" (")[0])
        lines.append(f"  {effect}{f' (of {where})' if where else ''}")
    rest = len(effects) - EVIDENCE_MAX
    return "\n".join([*lines, *([f"  … and {rest} more"] if rest > 0 else [])])


def _aborted_data(stage: Stage) -> Iterator[Breach]:
    """Yield a broken guarantee if the program under test read with isolation level read_uncommitted and received records of aborted
    transactions."""
    aborted = {(each.topic, each.partition, each.offset): each for each in _input(stage) if each.outcome is Visibility.ABORTED}
    given = {
        place
        for read in stage.deployment.reads
        if not read.committed_only
        for _, records in read.batches
        for offset, _ in records
        if (place := (read.topic, read.partition, offset)) in aborted
    }
    if given:
        some = [aborted[place] for place in sorted(given)[:EVIDENCE_MAX]]
        lines = [f"  {each.where} {(each.value or b'').decode(errors='replace')}: of an aborted transaction" for each in some]
        yield Breach(Guarantee.COMMITTED, f"it reads uncommitted data: it received {len(given)} aborted records", "\n".join(lines))


def _input(stage: Stage) -> list[Stored]:
    return stage.deployment.examine({stage.program.input}, audit=False).stored


def _unfinished(stage: Stage, advice: str) -> Iterator[Breach]:
    """Yield a broken guarantee if the program under test failed too often or did not finish in time. In the second case, `advice` is added
    to the explanation."""
    ending, program = stage.ending, stage.program
    counts = Counter(ending.failures)
    output = "\n".join(f"  {line}{f' ({count} times)' if count > 1 else ''}" for line, count in counts.items())
    if ending.gave_up:
        yield Breach(Guarantee.FINISHED, f"it failed {ending.restarts + 1} times and was not restarted again", output)
    elif ending.overdue:
        wanted = _END.get(program.role, "commit all of {input} or end").format(input=program.input)
        yield Breach(Guarantee.FINISHED, f"it did not {wanted} within {stage.limits.timeout_s:.0f} s", f"{output}\n  {advice}".lstrip("\n"))


def _field(value: bytes | None, path: Sequence[str]) -> Hashable:
    try:
        found = json.loads(value or b"null")
        for name in path:
            found = found[name]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str | int | float) else json.dumps(found)
