"""The result of a cell (a scenario with a client on a broker), and which results count as failures of Ottla.

Rules:
- A cell fails the run if it fails on Ottla and not on Apache Kafka, unless `KNOWN` names it with its row of docs/deviations.md.
- A cell also fails the run if it passes on both brokers, but the client reports something different.
- A cell that fails on Apache Kafka, too, is a fault of the client and is shown with its reason.
- A cell that `KNOWN` expects to fail and that passes is reported, so that the table stays correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from client_compat.matrix.brokers import GATEWAY, KAFKA, OLDER_RELEASES, OURS
from client_compat.matrix.clients import library_of

PLAIN_CHARS = 240
COMPARED = (OURS, GATEWAY)
"""The brokers on which a client must report the same as on Apache Kafka. Ottla as an older release is not among them, because the matrix
runs Apache Kafka only in its newest release."""
JUDGED = (*COMPARED, *OLDER_RELEASES)
"""The brokers on which a failing scenario makes the whole run fail."""
_VOLATILE = re.compile(
    r"\b[a-z]+-[A-Za-z0-9._-]*-\d+-\d+(-\d+)?|127\.0\.0\.1(:|', )\d+|\b\d{13}\b|\b[0-9A-F]{16}\b"
    r"|\b\d+(\.\d+)? ?(ms|seconds)\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z?"
)
"""Matches the parts of an error text that differ in each run: generated names, ports, times and durations. `plain` removes them."""


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the matrix: the result of one scenario with one client on one broker.

    `reason` says why the scenario did not pass. `found` is what the client reported, if it has to be the same on all brokers.
    """

    client: str
    scenario: str
    broker: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    found: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.client, self.scenario, self.broker


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """Cells (each a scenario with a client on a broker) that fail for a known reason, as full-match patterns of client and scenario.

    `deviation` names the row in docs/deviations.md (by its first column) if Ottla differs deliberately. It is empty if the client fails on
    Apache Kafka as well. `broker` limits the row to one broker; empty means any. Every row also applies to Ottla's gateway, because its
    clients meet Ottla's TLS and the Apache Kafka behind it.
    """

    client: str
    scenario: str
    why: str
    deviation: str = ""
    broker: str = ""

    def names(self, cell: Cell) -> bool:
        if self.broker not in {"", cell.broker} and cell.broker != GATEWAY:
            return False
        of_it = any(re.fullmatch(self.client, name) for name in (cell.client, library_of(cell.client)))
        return of_it and re.fullmatch(self.scenario, cell.scenario) is not None


KNOWN: tuple[KnownFailure, ...] = (
    KnownFailure(
        "platformatic-kafka",
        "partitioning/default-partitioner-as-javas",
        "its murmur2 partitioner does not mask the hash's sign bit before the modulo",
    ),
    KnownFailure("platformatic-kafka", "records/append-time", "it reports the sender's timestamp although the broker's applies"),
    KnownFailure(
        "platformatic-kafka", "topics/topic-made-again-under-a-consumer", "it ends with the error and does not look up the topic's new id"
    ),
    KnownFailure("franz-go", "topics/topic-made-again", "it keeps a topic's id by design, until the application forgets the topic"),
    KnownFailure("franz-go", "consumer_groups/consumer-group-static", "its static member leaves without its instance id, and is rejected"),
    KnownFailure("franz-go", "groups/assignor-sticky", "its eager sticky assignor sometimes moves a partition that could have stayed"),
    KnownFailure("kafka-go", "records/(headers|null-and-empty-keys|empty-values)", "its Reader returns null for empty values"),
    KnownFailure("kafka-go", "records/append-time", "its Reader gives the sender's timestamp also where the broker's applies"),
    KnownFailure(
        "franz-go-1.11|franz-go-1.18",
        "transactions/(transaction-fence|killed-in-a-transaction)",
        "it does not retry its initialisation while the older producer's transaction is being aborted",
    ),
    KnownFailure("franz-go", "transactions/transaction-fence", "its fenced producer fails with OPERATION_NOT_ATTEMPTED"),
    KnownFailure("franz-go", "admin/admin-fence-producers", "it does not retry while the fenced transaction is being aborted"),
    KnownFailure(
        "sarama",
        "lost_acks/idempotence-with-lost-acks|restarts/(restarts|kills)-idempotent",
        "its idempotent producer sometimes gives up when a connection closes",
    ),
    KnownFailure(
        "kafka-go",
        "admin/admin-partitions",
        "it uses metadata cached for six seconds, and sometimes does not know a new topic",
    ),
    KnownFailure("kafka-go", "groups/group-over-a-restart", "its Writer sometimes keeps using a connection that closed with the broker"),
    KnownFailure("kafka-go", "consume/fetch-waits", "its Reader waits for less time than it is configured to"),
    KnownFailure(
        "kafka-python", "produce/record-too-large-for-the-topic", "its idempotent producer does not recover from a rejected record"
    ),
    KnownFailure("confluent-kafka", "groups/commit-metadata", "it ends metadata with a NUL if characters take several bytes"),
    KnownFailure(
        "kafkajs|platformatic-kafka",
        "transactions/send-outside-a-transaction",
        "a transactional producer's send outside a transaction is non-transactional",
    ),
    KnownFailure("platformatic-kafka", "groups/static-member-fenced", "its fenced member continues without an error"),
    KnownFailure(
        "platformatic-kafka",
        "transactions/(transactions-in-turn|consume-transform-produce)",
        "its consumer returns the records of an aborted transaction that followed others of the same producer",
    ),
    KnownFailure(
        "platformatic-kafka",
        "transactions/(transaction-fence|killed-in-a-transaction)",
        "if the older producer had an open transaction, the newer one ends as fenced too",
    ),
    KnownFailure("rdkafka", "admin/admin-wrong-config", "it reports success for a rejected setting"),
    KnownFailure("rskafka", "produce/batch-size", "its batches are sent side by side, and at times arrive in another order"),
    KnownFailure("rskafka", "records/append-time", "it reports the sender's timestamp although the broker's applies"),
    KnownFailure("rskafka", "consume/position-out-of-range", "it has no reset: the application gets the error"),
    KnownFailure(
        "aiokafka", "groups/static-member-fenced", "its fenced member rejoins with the same instance id, and fences the newer one"
    ),
    KnownFailure(
        "spark",
        "consume/position-out-of-range|topics/topic-made-again-under-a-consumer",
        "it rejects a start offset beyond the end of a log",
    ),
    KnownFailure(
        "spark",
        "consume/woken-at-once",
        "all its batch reads use the same consumer, whose last fetch still waits at the end of the log",
    ),
    KnownFailure(
        "kafka-go|rskafka",
        "topics/auto-creation",
        "it asks once, and the broker responds before it has created the topic, as Apache Kafka does",
    ),
    KnownFailure(
        "confluent-kafka|rdkafka",
        "admin/admin-topics",
        "the topic was created when the controller had it, and at times Apache Kafka's broker does not yet when it is described",
        broker=KAFKA,
    ),
    KnownFailure(
        "kafkajs|platformatic-kafka",
        "restarts/idle-over-a-restart",
        "if its broker is down for nine seconds, as Apache Kafka is, its consumer ends, or (kafkajs) sometimes starts over",
        broker=KAFKA,
    ),
    KnownFailure(
        "kafka-python",
        "rights/write-taken-away-and-given-back",
        "its idempotent producer does not recover from a rejected record",
    ),
    KnownFailure(
        "franz-go|sarama|kafkajs",
        "security/(no-certificate|expired-certificate-of-a-client|certificate-of-a-stranger)",
        "OpenSSL's alert says what is wrong with a client's certificate, where Java's says bad_certificate or certificate_unknown",
        "A wrong client certificate causes the alerts bad_certificate and certificate_unknown",
        broker=OURS,
    ),
    KnownFailure(
        "java|java-2.8|franz-go|sarama",
        "security/plain-bytes-at-tls",
        "OpenSSL hangs up on what is no TLS, where Java sends an alert first",
        "Bytes that are not TLS cause an alert",
        broker=OURS,
    ),
    KnownFailure(
        "aiokafka-0.7|aiokafka-0.8|aiokafka-0.12|kafka-python-2.0",
        "codecs/topic-codec",
        "its Fetch is older than version 10, and releases before 4.0 answer with UNSUPPORTED_COMPRESSION_TYPE if a topic's codec is zstd",
    ),
    KnownFailure("aiokafka-0.[78]", "groups/assignor-sticky", "kafka-python's sticky assignor raises a TypeError when a member rejoins"),
    KnownFailure(
        "confluent-kafka-1.9",
        "produce/linger",
        "if it learns a topic's leader only after linger.ms, it sometimes sends the records that waited one by one",
    ),
    KnownFailure("franz-go-1.11", "consume/pause-and-resume", "it returns what it had fetched before the pause"),
    KnownFailure("franz-go-1.11", "admin/admin-transactions", "2.8 has no ListTransactions (KIP-664)", broker="ottla-2.8"),
    KnownFailure("franz-go|kafka-python", "topics/topic-made-again-under-a-consumer", "it keeps a deleted topic's id or position"),
)


def known(cell: Cell, table: Sequence[KnownFailure] = KNOWN) -> KnownFailure | None:
    return next((row for row in table if row.names(cell)), None)


def plain(text: str) -> str:
    """Return the first line of an error text, without parts that change in each run."""
    line = _VOLATILE.sub("…", text.strip().splitlines()[0] if text.strip() else "")
    return line if len(line) <= PLAIN_CHARS else f"{line[:PLAIN_CHARS]}…"


def differing_reports(cells: Iterable[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of cells (a scenario with a client on a broker) that both passed although the client reported something different.
    The first cell of a pair is from Ottla or its gateway, the second from Apache Kafka."""
    listed = list(cells)
    theirs = {(cell.client, cell.scenario): cell for cell in listed if cell.broker == KAFKA and cell.outcome is Outcome.PASS}
    ours = [cell for cell in listed if cell.broker in COMPARED and cell.outcome is Outcome.PASS]
    pairs = [(cell, theirs[cell.client, cell.scenario]) for cell in ours if (cell.client, cell.scenario) in theirs]
    return [(cell, other) for cell, other in pairs if cell.found != other.found]


def failures(cells: Iterable[Cell], table: Sequence[KnownFailure] = KNOWN) -> list[Cell]:
    """Return the cells (a scenario with a client on a broker) that fail the run.

    These are cells of Ottla and its gateway that `table` does not name. Either they fail and the same cell of Apache Kafka does not, or
    both pass and the client reported something different.
    """
    listed = list(cells)
    elsewhere: Mapping[tuple[str, str], Outcome] = {(cell.client, cell.scenario): cell.outcome for cell in listed if cell.broker == KAFKA}
    differing = {ours.key for ours, _ in differing_reports(listed)}
    return [
        cell
        for cell in listed
        if cell.broker in JUDGED
        and (cell.key in differing or (cell.outcome is Outcome.FAIL and elsewhere.get((cell.client, cell.scenario)) is not Outcome.FAIL))
        and known(cell, table) is None
    ]


def client_failures(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells (a scenario with a client on a broker) that fail on Apache Kafka: faults of the client or of the scenario."""
    return [cell for cell in cells if cell.broker == KAFKA and cell.outcome is Outcome.FAIL]


def unneeded(cells: Iterable[Cell], table: Sequence[KnownFailure] = KNOWN) -> list[KnownFailure]:
    """Return the known failures of `table` that did not occur: all their cells (scenarios with a client on a broker) passed with equal
    reports. These rows are obsolete."""
    listed = list(cells)
    judged = [cell for cell in listed if cell.broker in {KAFKA, *JUDGED} and cell.outcome in {Outcome.PASS, Outcome.FAIL}]
    bad = {cell.key for cell in judged if cell.outcome is Outcome.FAIL} | {ours.key for ours, _ in differing_reports(listed)}
    named = [(row, [cell for cell in judged if row.names(cell)]) for row in table]
    return [row for row, found in named if found and not bad.intersection(cell.key for cell in found)]
