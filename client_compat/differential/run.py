"""Runs the scenarios against both brokers and lists every difference.

Rules: each scenario has topics and groups of its own, so that any can be run alone; both brokers start with an empty
directory; a difference that `known.py` names is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from client_compat.differential.known import KNOWN, KnownDifference
from client_compat.differential.normalise import Plain, differences
from client_compat.differential.probe import Probe, Seen, Versions
from client_compat.differential.scenarios import BEFORE_COORDINATORS, SCENARIOS
from client_compat.differential.scenarios.common import wait_until_coordinated
from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import NODE_ID, ReferenceBroker
from client_compat.kafka.reference import SETTINGS as KAFKA_SETTINGS
from client_compat.support.brokers import HOST, ottla
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.registry import KEYS, request_class

SHARED = (
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "group.initial.rebalance.delay.ms",
    "log.cleaner.dedupe.buffer.size",
    "num.io.threads",
    "num.network.threads",
)
"""Settings of the reference that this broker is given too."""

FORMAT_OPTIONS = ("--feature", "eligible.leader.replicas.version=0")
"""With that feature every new cluster has `min.insync.replicas` as a dynamic default, which then differs in each answer about a topic."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one answer. `known` names the row of docs/deviations.md that explains it, or is empty."""

    scenario: str
    label: str
    api: str
    version: int
    path: str
    kafka: Plain
    ours: Plain
    known: str = ""


@dataclass(slots=True)
class Report:
    """What a run found."""

    kafka_version: str
    answers: int = 0
    denials: int = 0
    """How many of them deny something, where that is what is compared."""
    scenarios: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Difference]:
        return [found for found in self.differences if not found.known]

    def explained_nothing(self, rows: Sequence[KnownDifference]) -> list[KnownDifference]:
        """Those of `rows` that no difference needs."""

        def explains(row: KnownDifference, found: Difference) -> bool:
            return row.explains(Seen(found.label, found.api, found.version, None), found.path, found.kafka, found.ours)

        return [row for row in rows if not any(explains(row, found) for found in self.differences)]

    def add(self, other: Report) -> None:
        """What another run found, too."""
        self.answers += other.answers
        self.denials += other.denials
        self.scenarios += other.scenarios
        self.differences += other.differences

    def as_json(self) -> dict[str, Plain]:
        return {
            "kafka": self.kafka_version,
            "scenarios": self.scenarios,
            "answers": self.answers,
            "unexplained": len(self.unexplained),
            "differences": [asdict(found) for found in self.differences],
        }


def differential(directory: Path, only: Sequence[str] = (), *, on_scenario: Callable[[str, Report], None] | None = None) -> Report:
    """Start both brokers over fresh directories under `directory` and compare. Raises KafkaMissing or BrokerFailed."""
    reporters, classes = telemetry()
    reference = ReferenceBroker(directory / "kafka", reporters, classes=classes)
    shared = {name: KAFKA_SETTINGS[name] for name in SHARED} | dict(reporters)
    options = [f"--set={name}={value}" for name, value in shared.items()]
    options.append(f"--set=client.telemetry.enable={'true' if classes else 'false'}")
    report = Report(reference.version)
    reference.format(options=FORMAT_OPTIONS)
    with reference, ottla(directory / "ottla", options=[*options, f"--set=node.id={NODE_ID}"]) as own:
        versions = common_versions(reference.port, own.port)
        for name, scenario in SCENARIOS.items():
            if only and not any(word in name for word in only):
                continue
            with Probe(HOST, reference.port, versions) as kafka, Probe(HOST, own.port, versions) as ours:
                for probe in (kafka, ours):
                    if name not in BEFORE_COORDINATORS:
                        wait_until_coordinated(probe)
                    scenario(probe)
            report.scenarios.append(name)
            report.answers += len(kafka.seen)
            report.differences += compare(name, kafka.seen, ours.seen)
            if on_scenario is not None:
                on_scenario(name, report)
    return report


def telemetry() -> tuple[Mapping[str, str], Path | None]:
    """What switches the telemetry of clients on in Apache Kafka: a setting, and the class that it names. Nothing without a JDK."""
    try:
        return {"metric.reporters": "ottla.compat.TelemetryTaker"}, compiled("TelemetryTaker")
    except KafkaMissing:
        return {}, None


def compare(scenario: str, kafka: Sequence[Seen], ours: Sequence[Seen], known: Sequence[KnownDifference] = KNOWN) -> list[Difference]:
    """The differences of two runs of one scenario, answer by answer."""
    found = []
    for theirs, mine in zip(kafka, ours, strict=False):
        where = (scenario, theirs.label, theirs.api, theirs.version)
        if (theirs.label, theirs.version) != (mine.label, mine.version):
            found.append(Difference(*where, "(the scenario went another way)", theirs.label, mine.label))
            break
        for path, expected, got in differences(theirs.response, mine.response):
            reason = next((row.why for row in known if row.explains(theirs, path, expected, got)), "")
            found.append(Difference(*where, path, expected, got, reason))
    if len(kafka) != len(ours):
        found.append(Difference(scenario, "", "", -1, "(number of answers)", len(kafka), len(ours)))
    return found


def common_versions(*ports: int) -> Versions:
    """The versions that every broker and the protocol package know."""
    known = {int(key): (request_class(key).MIN_VERSION, request_class(key).MAX_VERSION) for key in KEYS}
    for port in ports:
        with Client(HOST, port) as client:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
            offered = {api.api_key: api for api in client.call(request, 4).api_keys}
        known = {
            key: (max(first, offered[key].min_version), min(last, offered[key].max_version))
            for key, (first, last) in known.items()
            if key in offered
        }
    return known
