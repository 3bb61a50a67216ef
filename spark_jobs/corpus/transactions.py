"""Small logs with transactions: legal ones of every shape, and logs with faults that only `__transaction_state` reveals."""

from __future__ import annotations

from pathlib import Path

from ottla.protocol.records.batch import LOG_APPEND_TIME, read_header
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.payments import BEGAN_MS, MINUTE_MS, PLANTED, Partition, plant
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, flip, reheaded

DAY_MS = 86_400_000
MARKER_BODY = 70
"""The position of a byte in a marker's batch that is behind the batch header, and so in the part that the CRC covers."""


def logs(root: Path) -> tuple[Partition, Partition, Partition]:
    return Partition(root, "payments", 0), Partition(root, "payments", 1), Partition(root, "__transaction_state", 0)


def interleaved(root: Path) -> None:
    first, second, states = logs(root)
    for producer in range(3):
        states.state(f"t{producer}", producer, 0, "Ongoing", 0, 0, 1)
        first.data(producer, 0, 0, 0)
        second.data(producer, 0, 0, 0)
    for producer in (1, 0, 2):
        state = "PrepareAbort" if producer == 0 else "PrepareCommit"
        states.state(f"t{producer}", producer, 1, state, 1, 0, 1)
        first.marker(producer, 1, 1, committed=producer != 0)
        second.marker(producer, 1, 1, committed=producer != 0)
        states.state(f"t{producer}", producer, 1, state.replace("Prepare", "Complete"), 1)
        first.data(producer, 1, 0, 2, transactional=False)


def version_1(root: Path) -> None:
    first, second, states = logs(root)
    sequences = [0, 0]
    for at, (outcome, touched) in enumerate([("Commit", (0, 1)), ("Abort", (0,)), ("Commit", (1,)), ("Abort", (0, 1))]):
        states.state("t", 1, 0, "Ongoing", at, *touched, version=1)
        for index in touched:
            (first, second)[index].data(1, 0, sequences[index], at)
            sequences[index] += 2
        states.state("t", 1, 0, f"Prepare{outcome}", at, *touched, version=1)
        for index in touched:
            (first, second)[index].marker(1, 0, at, committed=outcome == "Commit")
        states.state("t", 1, 0, f"Complete{outcome}", at, version=1)


def begins_with_an_abort(root: Path) -> None:
    first, _, _ = logs(root)
    first.marker(1, 1, 0, committed=False)
    first.data(1, 1, 0, 1)
    first.marker(1, 2, 1)


def aborts_of_nothing(root: Path) -> None:
    first, _, _ = logs(root)
    first.data(1, 0, 0, 0)
    first.marker(1, 1, 0)
    first.marker(1, 2, 1, committed=False)
    first.marker(1, 3, 1, committed=False)


def marker_twice(root: Path) -> None:
    first, _, _ = logs(root)
    first.data(1, 0, 0, 0)
    first.marker(1, 1, 0)
    first.marker(1, 1, 0, coordinator_epoch=2)


def open_within_its_timeout(root: Path) -> None:
    first, _, states = logs(root)
    states.state("t", 1, 0, "Ongoing", 0, 0)
    first.data(1, 0, 0, 0)


def stopped_between_markers(root: Path) -> None:
    first, second, states = logs(root)
    states.state("t", 1, 0, "Ongoing", 0, 0, 1)
    first.data(1, 0, 0, 0)
    second.data(1, 0, 0, 0)
    states.state("t", 1, 1, "PrepareCommit", 0, 0, 1)
    first.marker(1, 1, 0)


def markers_overdue(root: Path) -> None:
    stopped_between_markers(root)
    Partition(root, "other", 0).marker(9, 0, 30, committed=False)


def just_over_its_timeout(root: Path) -> None:
    open_within_its_timeout(root)
    now = BEGAN_MS + MINUTE_MS + 9_000
    Partition(root, "other", 0).append(end_txn_marker(committed=False, producer_id=9, producer_epoch=0, coordinator_epoch=1, timestamp=now))


def open_with_old_times(root: Path) -> None:
    first = Partition(root, "payments", 0)
    first.marker(9, 0, 30, committed=False)
    first.data(1, 0, 0, 0)


def stopped_where_no_state_is(root: Path) -> None:
    first, second = Partition(root, "payments", 0), Partition(root, "payments", 1)
    first.data(1, 0, 0, 0)
    second.data(1, 0, 0, 0)
    first.marker(1, 1, 0)


def nobody_knows_it(root: Path) -> None:
    first, _, states = logs(root)
    states.state("t", 1, 0, "CompleteCommit", 0)
    first.data(1, 0, 0, 0)


def without_the_coordinators_log(root: Path) -> None:
    first = Partition(root, "payments", 0)
    first.data(1, 0, 0, 0)
    first.marker(2, 0, 16, committed=False)
    first.data(3, 0, 0, 16)


def other_partitions_state(root: Path) -> None:
    Partition(root, "payments", 0).data(1, 0, 0, 0)
    Partition(root, "__transaction_state", 4).state("t", 2, 0, "Empty", 1)


def against_the_decision(root: Path) -> None:
    first, _, states = logs(root)
    first.data(1, 0, 0, 1)
    states.state("t", 1, 0, "PrepareCommit", 1, 0, version=1)
    first.marker(1, 0, 1, committed=False)
    states.state("t", 1, 0, "CompleteCommit", 1, version=1)


def lost_with_its_marker(root: Path) -> None:
    first, second, states = logs(root)
    first.data(1, 0, 0, 1)
    second.data(2, 0, 0, 0, transactional=False)
    states.state("t", 1, 1, "PrepareCommit", 1, 0, 1)
    first.marker(1, 1, 1)
    states.state("t", 1, 1, "CompleteCommit", 1)


def ended_by_the_next_transaction(root: Path) -> None:
    first, second, _ = logs(root)
    for producer, committed in ((1, True), (2, False)):
        first.data(producer, 0, 0, 1)
        second.data(producer, 0, 0, 1)
        first.marker(producer, 1, 1, committed=committed)
        for partition in (first, second):
            partition.data(producer, 1, 0, 2)
            partition.marker(producer, 2, 2, committed=not committed)


def behind_a_damaged_marker(root: Path) -> None:
    first, second, _ = logs(root)
    for at, committed in ((0, True), (1, False)):
        for partition in (first, second):
            partition.data(1, at, 0, at)
            partition.marker(1, at + 1, at, committed=committed)
    file = root / "payments-1" / f"{0:020d}.log"
    flip(file, read_header(file.read_bytes()).size_bytes + MARKER_BODY)


def torn_by_silence(root: Path) -> None:
    first, second, _ = logs(root)
    first.data(1, 0, 0, 1)
    second.data(1, 0, 0, 1)
    first.marker(1, 1, 1)
    first.data(1, 1, 0, 2)
    first.marker(1, 2, 2)


def without_a_new_epoch(root: Path) -> None:
    first, _, states = logs(root)
    first.data(1, 0, 0, 1)
    states.state("t", 1, 0, "PrepareCommit", 1, 0, version=2)
    first.marker(1, 0, 1)
    states.state("t", 1, 0, "CompleteCommit", 1, version=2)
    first.data(1, 0, 2, 2)
    states.state("t", 1, 0, "PrepareAbort", 2, 0, version=1)
    first.marker(1, 0, 2, committed=False)
    states.state("t", 1, 0, "CompleteAbort", 2, version=1)


def sequences_of_old_events(root: Path) -> None:
    for partition, sequences in enumerate(((0, 0), (0, 10))):
        log = PartitionWriter(root, "t", partition)
        for number, seq in enumerate(sequences):
            log.data(5, pid=1, seq=seq, transactional=True, at=T0 - 30 * DAY_MS)
            log.marker(1, at=T0 + number)


def committed_and_aborted(root: Path) -> None:
    first, second, _ = logs(root)
    for partition, outcomes in ((first, (True, False)), (second, (False, True))):
        partition.data(1, 0, 0, 0)
        for committed in outcomes:
            partition.marker(1, 1, 0, committed=committed)


def data_after_its_end(root: Path) -> None:
    first, second, _ = logs(root)
    first.data(1, 0, 0, 1)
    first.marker(1, 1, 1)
    record = SimpleRecord(b"k", b"late", BEGAN_MS)
    late = build_batch([record], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    header = read_header(late)
    second.append(reheaded(late, attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=BEGAN_MS + 2 * MINUTE_MS))
    second.marker(1, 1, 3)


TRANSACTIONS: dict[str, Case] = {
    "planted": Case(plant, [(rule, "violation", kind, where) for rule, kind, where in PLANTED]),
    "interleaved": Case(interleaved, []),
    "version_1": Case(version_1, []),
    "begins_with_an_abort": Case(begins_with_an_abort, []),
    "aborts_of_nothing": Case(aborts_of_nothing, []),
    "marker_twice": Case(marker_twice, [("markers", "info", "commit of nothing", "payments-0@3")]),
    "open_within_its_timeout": Case(open_within_its_timeout, [("hanging-transaction", "info", "open", "payments-0@0")]),
    "stopped_between_markers": Case(
        stopped_between_markers,
        [
            ("hanging-transaction", "info", "markers being written", "payments-1@0"),
            ("torn-transaction", "info", "committed elsewhere, open here", "payments-1@0"),
        ],
    ),
    "markers_overdue": Case(
        markers_overdue,
        [
            ("hanging-transaction", "violation", "decided, markers overdue", "payments-1@0"),
            ("torn-transaction", "info", "committed elsewhere, open here", "payments-1@0"),
        ],
    ),
    "just_over_its_timeout": Case(just_over_its_timeout, [("hanging-transaction", "info", "open", "payments-0@0")]),
    "open_with_old_times": Case(open_with_old_times, [("hanging-transaction", "info", "open", "payments-0@1")]),
    "stopped_where_no_state_is": Case(
        stopped_where_no_state_is,
        [
            ("hanging-transaction", "info", "open", "payments-1@0"),
            ("torn-transaction", "warning", "committed elsewhere, open here", "payments-1@0"),
        ],
    ),
    "nobody_knows_it": Case(nobody_knows_it, [("hanging-transaction", "violation", "orphan: unknown to its coordinator", "payments-0@0")]),
    "without_the_coordinators_log": Case(
        without_the_coordinators_log,
        [("hanging-transaction", "info", "open", "payments-0@3"), ("hanging-transaction", "violation", "no marker", "payments-0@0")],
    ),
    "other_partitions_state": Case(other_partitions_state, [("hanging-transaction", "info", "open", "payments-0@0")]),
    "against_the_decision": Case(
        against_the_decision, [("torn-transaction", "violation", "against the decision of its coordinator", "payments-0@2")]
    ),
    "lost_with_its_marker": Case(lost_with_its_marker, [("torn-transaction", "warning", "marker missing", "payments-1@?")]),
    "ended_by_the_next_transaction": Case(
        ended_by_the_next_transaction,
        [
            ("torn-transaction", "violation", "ended by a later transaction, with another outcome", "payments-1@0"),
            ("torn-transaction", "violation", "ended by a later transaction, with another outcome", "payments-1@5"),
        ],
    ),
    "without_a_new_epoch": Case(without_a_new_epoch, [("transaction-epochs", "violation", "marker without a new epoch", "payments-0@0")]),
    "sequences_of_old_events": Case(
        sequences_of_old_events,
        [
            ("duplicate-sequence", "violation", "same batch twice", "t-0@6"),
            ("sequence-gap", "violation", "sequence gap", "t-1@6"),
        ],
    ),
    "committed_and_aborted": Case(
        committed_and_aborted,
        [
            ("markers", "warning", "another outcome of the same epoch", "payments-0@3"),
            ("markers", "warning", "another outcome of the same epoch", "payments-1@3"),
            ("torn-transaction", "violation", "committed elsewhere, aborted here", "payments-1@0"),
        ],
    ),
    "data_after_its_end": Case(
        data_after_its_end, [("torn-transaction", "warning", "ended elsewhere before its last data", "payments-1@0")]
    ),
    "behind_a_damaged_marker": Case(behind_a_damaged_marker, [("crc", "violation", "wrong CRC", "payments-1@2")]),
    "torn_by_silence": Case(
        torn_by_silence,
        [
            ("hanging-transaction", "violation", "orphan: a newer epoch wrote", "payments-1@0"),
            ("torn-transaction", "violation", "committed elsewhere, open here", "payments-1@0"),
        ],
    ),
}
