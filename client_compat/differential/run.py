"""Run the scenarios against both standalone brokers and list every difference.

Rules:
- Each scenario has its own topics and groups, so that it can run alone.
- Both brokers start with an empty directory.
- A difference that `known.py` explains is counted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from client_compat.differential.known import KNOWN, KNOWN_OF_OLDER, KNOWN_OF_ZOOKEEPER, KnownDifference
from client_compat.differential.normalise import Plain, differences
from client_compat.differential.probe import NotOffered, Probe, Seen, Versions
from client_compat.differential.scenarios import BEFORE_COORDINATORS, OF_NEWEST, SCENARIOS
from client_compat.differential.scenarios.common import wait_until_coordinated
from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import KafkaMissing, default_version
from client_compat.kafka.reference import KRAFT_SINCE, NODE_ID, ReferenceBroker, release_of
from client_compat.kafka.reference import SETTINGS as KAFKA_SETTINGS
from client_compat.kafka.release_record import ELR_SINCE, TELEMETRY_SINCE
from client_compat.support.brokers import HOST, ottla
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.registry import declared_keys, request_class

SHARED = (
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "group.initial.rebalance.delay.ms",
    "log.cleaner.dedupe.buffer.size",
    "num.io.threads",
    "num.network.threads",
)
"""The names of settings that Ottla gets with the same values as the reference broker, Apache Kafka."""

GROUP_APIS = {"group.version": "CONSUMER_GROUP_", "share.version": "SHARE_", "streams.version": "STREAMS_"}
"""For each feature that enables a group type, a text that occurs in the names of this group type's APIs."""

NEEDED: Mapping[str, ApiKey] = {
    "consumer_groups.": ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "group_changes.": ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "group_oddities.": ApiKey.STREAMS_GROUP_HEARTBEAT,
    "share_": ApiKey.SHARE_GROUP_HEARTBEAT,
    "streams_groups.": ApiKey.STREAMS_GROUP_HEARTBEAT,
}
"""The API that a scenario needs, by the beginning of the scenario's name. For a release without that API, the scenario is skipped."""

FORMAT_OPTIONS = ("--feature", "eligible.leader.replicas.version=0")
"""Options of `kafka-storage format` that disable ELR (KIP-966).

With ELR, every new cluster has a dynamic default `min.insync.replicas`, which would be a difference in each description of a topic.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """One differing field of one response. `known` names the row of docs/deviations.md that explains it, or is empty."""

    scenario: str
    label: str
    api: str
    version: int
    path: str
    kafka: Plain
    ours: Plain
    known: str = ""


AT_ONCE: Mapping[str, str] = {f"group.{kind}.assignor.offload.enable": "false" for kind in ("consumer", "share", "streams")}
"""Settings with which Apache Kafka computes a group's assignment while it handles a heartbeat, as Ottla does.

By default, Kafka computes assignments on a background thread, so that by chance they are late. If a share group's assignment is computed
after its share partitions were initialized, it includes them at once, and the group needs one epoch less.
"""


@dataclass(slots=True)
class Report:
    """The result of a run of scenarios: counts, and the differences between the brokers' responses."""

    kafka_version: str
    answers: int = 0
    denials: int = 0
    """Number of responses that deny authorization; counted only when authorization is compared."""
    scenarios: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    cut_short: set[str] = field(default_factory=set)
    """Scenarios that ended early because the older release lacks an API."""
    not_asked: list[str] = field(default_factory=list)
    """Scenarios that were skipped because the older release lacks the API in `NEEDED`."""

    @property
    def unexplained(self) -> list[Difference]:
        return [found for found in self.differences if not found.known]

    def explained_nothing(self, rows: Sequence[KnownDifference]) -> list[KnownDifference]:
        """Return those of the deliberate differences `rows` (from docs/deviations.md) that explain no difference of this run."""

        def explains(row: KnownDifference, found: Difference) -> bool:
            return row.explains(Seen(found.label, found.api, found.version, None), found.path, found.kafka, found.ours)

        return [row for row in rows if not any(explains(row, found) for found in self.differences)]

    def add(self, other: Report) -> None:
        """Add the counts and differences of another run's report to this one."""
        self.answers += other.answers
        self.denials += other.denials
        self.scenarios += other.scenarios
        self.differences += other.differences
        self.cut_short |= other.cut_short
        self.not_asked += other.not_asked

    def as_json(self) -> dict[str, Plain]:
        return {
            "kafka": self.kafka_version,
            "scenarios": self.scenarios,
            "answers": self.answers,
            "cut_short": sorted(self.cut_short),
            "not_asked": self.not_asked,
            "unexplained": len(self.unexplained),
            "differences": [asdict(found) for found in self.differences],
        }


def differential(
    directory: Path, only: Sequence[str] = (), *, on_scenario: Callable[[str, Report], None] | None = None, like: str | None = None
) -> Report:
    """Start Apache Kafka and Ottla over fresh directories under `directory`, compare their responses, and return the report. `only`: words;
    run only scenarios with one of them in their name. With `like`, such as `3.7.2`, Ottla behaves like that version of Apache Kafka and is
    compared with it. Raises KafkaMissing or BrokerFailed if a broker cannot be started."""
    older = like is not None and release_of(like) < TELEMETRY_SINCE
    reporters, classes = telemetry() if not older else ({}, None)
    reference = ReferenceBroker(directory / "kafka", {**reporters, **AT_ONCE}, like or default_version(), classes=classes)
    shared = {name: KAFKA_SETTINGS[name] for name in SHARED} | dict(reporters)
    options = [f"--set={name}={value}" for name, value in shared.items()]
    options.append(f"--set=client.telemetry.enable={'true' if classes else 'false'}")
    if like is not None:
        options.append(f"--like={like}")
    report = Report(reference.version)
    reference.format(options=FORMAT_OPTIONS if release_of(reference.version) >= ELR_SINCE else ())
    with reference, ottla(directory / "ottla", options=[*options, f"--set=node.id={NODE_ID}"]) as own:
        versions = common_versions(reference.port, own.port)
        if like is not None:
            versions = without_disabled_groups(versions, reference.port)
        known = KNOWN if like is None else KNOWN_OF_ZOOKEEPER if release_of(like) < KRAFT_SINCE else KNOWN_OF_OLDER
        play_all(report, versions, (reference.port, own.port), only, known=known, older=like is not None, on_scenario=on_scenario)
    return report


def play_all(
    report: Report,
    versions: Versions,
    ports: tuple[int, int],
    only: Sequence[str] = (),
    *,
    known: Sequence[KnownDifference] = (),
    older: bool = False,
    on_scenario: Callable[[str, Report], None] | None = None,
) -> None:
    """Run each scenario against both brokers, and add the differences of the responses to the report. `ports` has Apache Kafka's port
    first. `only`: words; run only scenarios with one of them in their name. `known`: the deliberate differences. `older`: the brokers are,
    or behave like, a release that lacks some APIs of the scenarios."""
    kafka_port, own_port = ports
    for name, scenario in SCENARIOS.items():
        if (only and not any(word in name for word in only)) or (older and name in OF_NEWEST):
            continue
        if older and any(name.startswith(beginning) and key not in versions for beginning, key in NEEDED.items()):
            report.not_asked.append(name)
            continue
        with Probe(HOST, kafka_port, versions, older=older) as kafka, Probe(HOST, own_port, versions, older=older) as ours:
            for probe in (kafka, ours):
                if name not in BEFORE_COORDINATORS:
                    wait_until_coordinated(probe)
                _play(name, scenario, probe, report)
        report.scenarios.append(name)
        report.answers += len(kafka.seen)
        report.differences += compare(name, kafka.seen, ours.seen, known)
        if on_scenario is not None:
            on_scenario(name, report)


def _play(name: str, scenario: Callable[[Probe], None], probe: Probe, report: Report) -> None:
    """Run the scenario on one broker; `probe` records the responses. At an older release, the scenario ends early at a request that the
    release does not offer, or at a response that lacks a field for a later step; the report counts this."""
    try:
        scenario(probe)
    except NotOffered:
        report.cut_short.add(name)
    except (AttributeError, LookupError, TypeError, TimeoutError) as error:
        if not probe.older:
            raise
        probe.seen.append(Seen("(the scenario cannot go on)", "", -1, type(error).__name__))
        report.cut_short.add(name)


def telemetry() -> tuple[Mapping[str, str], Path | None]:
    """Return the settings and the class path that enable client telemetry (KIP-714) in Apache Kafka: a metrics reporter that is compiled
    here. Without a JDK, return no settings and None."""
    try:
        return {"metric.reporters": "ottla.compat.TelemetryTaker"}, compiled("TelemetryTaker")
    except KafkaMissing:
        return {}, None


def compare(scenario: str, kafka: Sequence[Seen], ours: Sequence[Seen], known: Sequence[KnownDifference] = KNOWN) -> list[Difference]:
    """Return the differences between the responses of two brokers to one scenario, response by response. If the sequences of requests
    diverge, one final difference says where."""
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
    """Return, by API key, the first and last version that the brokers at these ports and the protocol package all support."""
    known = {int(key): (request_class(key).MIN_VERSION, request_class(key).MAX_VERSION) for key in declared_keys()}
    for port in ports:
        with Client(HOST, port) as client:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
            offered = {api.api_key: api for api in client.call(request, client.highest_version(ApiVersionsRequest)).api_keys}
        known = {
            key: (max(first, offered[key].min_version), min(last, offered[key].max_version))
            for key, (first, last) in known.items()
            if key in offered
        }
    return known


def without_disabled_groups(versions: Versions, port: int) -> Versions:
    """Return the versions without the APIs of the kinds of groups that new clusters of the release do not enable.

    Requests of these APIs would be answered with errors, and scenarios would wait for their groups in vain.
    """
    with Client(HOST, port) as client:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        offered = client.call(request, client.highest_version(ApiVersionsRequest))
    enabled = {feature.name for feature in offered.finalized_features}
    disabled = [word for feature, word in GROUP_APIS.items() if feature not in enabled]
    return {key: found for key, found in versions.items() if not any(word in ApiKey(key).name for word in disabled)}
