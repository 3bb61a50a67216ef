"""Compares the recorded history of clients with the logs: `examine` returns the anomalies; `assert_exactly_once` raises an exception that
explains them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.app import Broker
from ottla.broker.cluster.topic_names import TRANSACTION_STATE
from ottla.broker.testing.anomalies import Anomaly, Identity, Observations, by_key, by_value, judge
from ottla.broker.testing.broker_thread import BrokerThread
from ottla.broker.testing.contents import Stored, contents
from ottla.broker.testing.explanation import explain
from ottla.broker.testing.history import History

_FINDINGS_MAX = 10
_IDENTITIES: Final = {"value": by_value, "key": by_key}
_AUDIT_NEEDS = ("pyarrow", "numpy", "duckdb", "sqlglot", "junitparser")


class AssertionArguments(NamedTuple):
    """The arguments of `assert_exactly_once` after they were checked: topics and expected identities as lists (None: not given), and `by`
    as a function."""

    topics: list[str] | None
    expected: list[Hashable] | None
    by: Identity


class NotExactlyOnce(AssertionError):
    """Raised if records were duplicated, lost or reordered, or were read although they were aborted. The text explains what happened.
    `anomalies` and `findings` (lines of the log's audit) have the details for programs."""

    def __init__(self, anomalies: Sequence[Anomaly], findings: Sequence[str]) -> None:
        super().__init__(explain(anomalies, findings))
        self.anomalies = list(anomalies)
        self.findings = list(findings)


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of comparing the history of clients with the logs: the anomalies, the findings of the audit, and all records of the
    compared logs."""

    anomalies: list[Anomaly] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)


def examine(
    broker: BrokerThread,
    history: History,
    topics: Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: Identity = by_value,
    audit: bool = True,
) -> Examined:
    """Compare what clients sent and received (`history`) with the broker's logs of `topics` (None: all except internal ones). Return the
    anomalies, the findings of the audit, and all stored records.

    `by` maps a record to its identity. `expected` are the identities of which each must be readable exactly once; None: no check. With
    `audit`, also audit the logs. Raises RuntimeError for an incomplete history, KeyError for an unknown topic.
    """
    if not history.complete:
        raise RuntimeError("the history is limited to 256 MiB of records and incomplete: judge smaller tests, or audit the log alone")
    wanted = None if topics is None else set(topics)
    seen = broker.call(lambda running: _observations(running, history, wanted, by))
    names = {topic for topic, _ in seen.begins} if wanted is None else wanted
    return Examined(judge(seen, expected), audit_findings([broker.data_dir], names) if audit and names else [], list(seen.stored))


def _check_topics(running: Broker, history: History, wanted: Collection[str]) -> None:
    """Raise KeyError if a topic in `wanted` is unknown, because a misspelt name would otherwise pass the check. A topic to which clients
    wrote and that was then deleted counts as known."""
    names = set(running.services.partitions.topic_names())
    for topic in sorted(set(wanted) - names - {send.topic for send in history.sends}):
        raise KeyError(f"there is no topic {topic!r}; existing topics: {', '.join(sorted(names)) or 'none'}")


def _observations(running: Broker, history: History, wanted: Collection[str] | None, by: Identity) -> Observations:
    """Return the history of the clients together with the records in the logs, for the topics `wanted` (None: all except internal ones).
    Both are read in one turn of the event loop, so that a record sent meanwhile is in both or in neither."""
    partitions = [
        each for each in running.services.partitions if (not each.topic.startswith("__") if wanted is None else each.topic in wanted)
    ]
    names = {each.topic for each in partitions} if wanted is None else wanted
    return Observations(
        sorted((send for send in history.sends if send.topic in names), key=lambda send: send.number),
        [read for read in history.reads if read.topic in names],
        contents(running, names),
        by,
        {(each.topic, each.index): each.log.log_start_offset for each in partitions},
        frozenset(each.topic for each in partitions if each.log.config.compacts),
    )


def assert_exactly_once(
    broker: BrokerThread,
    history: History,
    topics: str | Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: str | Identity = "value",
    audit: bool = True,
) -> None:
    """Compare the history of a broker's clients with the broker's logs; raise NotExactlyOnce if they show an anomaly.

    `topics`: compare only these. `expected`: the identities of which each must be readable exactly once. `by` says how records are
    identified: by "value", by "key", or by a function. `audit`: also audit the log, if the extra `audit` is installed. Raises ValueError,
    TypeError and KeyError for invalid arguments, RuntimeError for an incomplete history.
    """
    __tracebackhide__ = True  # pytest then shows only the caller's line and the explanation
    arguments = assertion_arguments(topics, expected, by)
    broker.call(lambda running: _check_topics(running, history, arguments.topics or ()))
    found = examine(broker, history, arguments.topics, expected=arguments.expected, by=arguments.by, audit=audit)
    if found.anomalies or found.findings:
        raise NotExactlyOnce(found.anomalies, found.findings)


def audit_missing() -> str | None:
    """Return the name of the first package of the optional dependencies `audit` that is not installed; None if all are installed."""
    return next((name for name in _AUDIT_NEEDS if find_spec(name) is None), None)


def assertion_arguments(topics: str | Iterable[str] | None, expected: Iterable[Hashable] | None, by: str | Identity) -> AssertionArguments:
    """Check the arguments of `assert_exactly_once`, and convert them to two lists and a function. Raises TypeError for an expected identity
    that no record can have, ValueError for an identity that occurs twice or an unknown `by`."""
    names = [topics] if isinstance(topics, str) else topics
    return AssertionArguments(
        None if names is None else list(names), None if expected is None else _expected(expected, by), identity_of(by)
    )


def _expected(given: Iterable[Hashable], by: str | Identity) -> list[Hashable]:
    if isinstance(given, (str, bytes)):
        raise TypeError(f"expected must be a list, even of one item: expected=[{given!r}]")
    expected = list(given)
    for each, times in Counter(expected).items():
        if isinstance(by, str) and not isinstance(each, bytes):
            raise TypeError(f"a {by} is bytes, so no record can be equal to the expected {type(each).__name__} {each!r}")
        if times > 1:
            raise ValueError(f"{each!r} is expected {times} times, but can be there only once: records must differ in what identifies them")
    return expected


def identity_of(by: str | Identity) -> Identity:
    """Return the function that maps a record to its identity: that for the word "value" or "key", or `by` itself if it is a function.
    Raises ValueError for another word."""
    if not isinstance(by, str):
        return by
    if by not in _IDENTITIES:
        raise ValueError(f"by={by!r} is neither one of {', '.join(map(repr, _IDENTITIES))} nor a function of key and value")
    return _IDENTITIES[by]


def audit_findings(
    paths: Sequence[str | Path],
    topics: Iterable[str],
    *,
    replicas: bool = False,
    alone: Collection[str] | None = None,
    command_config: Path | None = None,
) -> list[str]:
    """Return the violations that the audit finds, one line each, at most `_FINDINGS_MAX`. If the audit is not installed, return none.

    `paths` are data directories, or a cluster (`kafka://host:port`, with the security settings of `command_config`). With `replicas`, also
    compare the directories with each other. `alone`: return only violations in these topics, and none in internal ones.
    """
    if audit_missing() is not None:
        return []
    from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # costs a tenth of a second
    from ottla.spark_jobs.wire.sources import Wire  # noqa: PLC0415 # comes with the audit

    wanted = [*sorted(topics), TRANSACTION_STATE]
    judged = audit(paths, topics=wanted, engine="duckdb", replicas=replicas, wire=Wire(command_config)).directories
    lines = []
    for verdict in judged:
        for name, result in verdict.rules.items():
            where = f"{verdict.path}: " if replicas else ""
            bad = [each for each in result.samples if each.severity == "violation" and (alone is None or each.topic in alone)]
            lines += [f"{name}: {where}{each.where} {each.kind}" for each in bad]
    return lines[:_FINDINGS_MAX]
