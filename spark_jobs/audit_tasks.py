"""Divides an audit into tasks, and runs the audit's two steps (see `steps`) in these tasks.

Invariants:
- A task has all rows that a rule compares with each other: whole log partitions with their index files; with --replicas, all copies of a
  partition; and all partitions of `__consumer_offsets`, `__share_group_state` or `__transaction_state` of a directory, because in a damaged
  log several of these partitions may hold the same id.
- Tasks have about equal sizes. A partition that is much larger than a task is cut between segments into slices, and each slice is read by
  one task. Such a task evaluates no rule: it outputs one row per batch and, if rules read records, one row per record, with hashes in place
  of contents. One further task judges the rows of all slices of a partition, so the cuts cannot change a finding.
- Between the steps, the rows are shuffled: each task of the second step gets one shuffle partition. Tasks exchange pairs of a shuffle
  partition's number and bytes, which both an RDD and a DataFrame can hold.
"""

from __future__ import annotations

import pickle
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import IO, Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from ottla.spark_jobs import tables
from ottla.spark_jobs.engines.embedded import EmbeddedEngine, arrow_schema, coalesced, embedded_engine
from ottla.spark_jobs.log_directory import COORDINATOR_TOPICS, TRANSACTION_STATE, LogDirectory, LogFile
from ottla.spark_jobs.merging import Merged
from ottla.spark_jobs.reports.pictures import Drawn, FindingPlace
from ottla.spark_jobs.steps import SHUFFLED, Answer, AuditSpec, RowsRead, draw, judge_across, judge_partitions, record_query
from ottla.spark_jobs.stored_results import StoredResults
from ottla.spark_jobs.tables.filters import Filters
from ottla.spark_jobs.views import RAW_BATCHES_NEED

Row = tuple[int, bytes]
"""A row that tasks exchange: the number of the shuffle partition that it belongs to, and pickled data. The number ANSWER marks a row for
the driver."""
ANSWER: Final = -1
"""A number that no shuffle partition has. It marks a row whose data is an `Answer` (results of a task) for the driver, or an exception."""
SLICE_END: Final = "end"
"""Marks the last row of a slice; other rows have their kind (`batches` or `records`) in this place. The last row contains (`Slice.judged`,
`Slice.slices`), so that the task that judges the partition knows its files, and whether it received all slices."""
Task = list[LogDirectory]
"""The input of a task: a subset of each directory's partitions."""


class Slice(NamedTuple):
    """One task's part of a partition that several tasks read because it is large. With --replicas, the part belongs to one of the
    partition's replicas.

    `number`: the partition's index among the partitions that are read in slices. `slices`: the number of its slices. `read`: the segments
    of this slice. `judged`, only in the first slice: the whole partition with its index files.
    """

    number: int
    slices: int
    read: Task
    judged: Task | None


class Plan(NamedTuple):
    """The distribution of log partitions over the tasks of the first step. `tasks`: the inputs of tasks that judge whole partitions.
    `slices`: the inputs of tasks that only read a part of a large partition. `split`: the number of large partitions, each of which a
    further task judges."""

    tasks: list[Task]
    slices: list[Slice]
    split: int

    @property
    def judged(self) -> list[Task]:
        """All partitions of the plan, each once, grouped as they are judged: first the inputs of tasks that judge whole partitions, then
        each partition that is read in slices."""
        return self.tasks + [each.judged for each in self.slices if each.judged is not None]

    @property
    def tasks_first_step(self) -> int:
        """The number of tasks in the audit's first step: tasks that judge whole partitions, that read slices of large partitions, and that
        judge large partitions."""
        return len(self.tasks) + len(self.slices) + self.split


TASK_BYTES_MAX: Final = 512 << 20
TASK_BYTES_MIN: Final = 32 << 20
TASKS_MAX: Final = 20_000
"""The maximum number of tasks, because the driver holds each task in memory. Only logs of more than 10 TB would need more tasks of
TASK_BYTES_MAX bytes each."""
TASKS_WANTED: Final = 16
"""The minimum number of tasks for a large log, however few cores the cluster has (see `make_tasks`), so that all cores finish at about the
same time. A small log gets fewer tasks, because the queries of each task take 0.25 s."""
UNSPLIT_BYTES_MAX: Final = 16 << 30
"""The size in bytes above which a partition is split even if it does not delay the other tasks: a single task would take minutes to judge
it, and would repeat them after a failure."""
FILE_BYTES: Final = 64 << 10
"""The fixed cost of a file, in bytes: opening it and judging its partition takes as long as reading this many bytes."""
SHUFFLE_PARTITION_BYTES: Final = 16 << 30
"""The number of shuffle partitions is the log's size divided by this many bytes, if no rule needs a business key. The second step then
receives only one row per transaction and one per producer."""
KEYS_SHUFFLE_PARTITION_BYTES: Final = 1 << 30
"""The number of shuffle partitions is the log's size divided by this many bytes, if the audit has a business key (--key-field). The second
step then receives one row per record."""
SHUFFLE_PARTITIONS_MAX: Final = 1000
BLOB_BYTES: Final = 16 << 20
"""The number of bytes of Arrow streams that a task of the first step collects before it yields them as one row."""


@dataclass(frozen=True, slots=True)
class Work:
    """The settings of all tasks. `shuffle_partitions`: the number of tasks of the second step. `memory_mb`: the memory limit of a task's
    queries. `stored`: the stored results of the first step (--resume), which a restarted run reuses; None without --resume."""

    spec: AuditSpec
    shuffle_partitions: int
    memory_mb: int
    stored: StoredResults | None = None


def serialized(task: Task | Slice) -> bytes:
    """Return a task's input as compressed bytes. The driver holds the inputs of all tasks, and their paths compress well."""
    return zlib.compress(pickle.dumps(tuple(task)), 1)


def _deserialized(content: bytes) -> tuple[Any, ...]:
    found: tuple[Any, ...] = pickle.loads(zlib.decompress(content))
    return found


def make_tasks(logs: Sequence[LogDirectory], spec: AuditSpec, cores: int = 1) -> list[Task]:
    """Divide all partitions of the topics in `spec` among tasks of about equal size; return the tasks, the largest first. A log that is
    large enough gets three tasks for each of the cluster's `cores`, and at least TASKS_WANTED tasks."""
    units = _units(logs, spec)
    return _tasks_of(units, _target(sum(map(_cost, units.values())), cores))


def plan(logs: Sequence[LogDirectory], spec: AuditSpec, cores: int = 1) -> Plan:
    """Distribute partitions over tasks of about equal size, like `make_tasks`, but let several tasks read a large partition in slices. A
    partition is large if a single task would still judge it after all other tasks have finished, or if it has more than UNSPLIT_BYTES_MAX
    bytes.

    The coordinators' topics are never split, because the rules about groups and transactional ids decode their records. They are small:
    brokers delete superseded records.
    """
    return _plan(_units(logs, spec), cores)


def plan_rest(stored: StoredResults, logs: Sequence[LogDirectory], spec: AuditSpec, cores: int = 1) -> tuple[list[Task], Plan]:
    """Return the tasks whose stored results can be reused, because all of their partitions are unchanged, and the plan for the other
    partitions (see `plan`)."""
    rest = _units(logs, spec)
    keys = {stored.digest(unit): key for key, unit in rest.items()}
    taken = []
    for digests in stored.results():
        covered = [keys[digest] for digest in sorted(digests) if digest in keys]
        if len(covered) == len(digests) and rest.keys() >= set(covered):  # two results may cover the same partition
            taken.append(_merged(part for key in covered for part in rest.pop(key)))
    return taken, _plan(rest, cores)


def _plan(units: dict[tuple[Any, ...], Task], cores: int) -> Plan:
    total = sum(map(_cost, units.values()))
    target = _target(total, cores)
    largest = max(2 * target, min(UNSPLIT_BYTES_MAX, total // cores))
    slices: list[Slice] = []
    split = 0
    for key, unit in list(units.items()):
        if key[-1] not in COORDINATOR_TOPICS and _cost(unit) > largest and len(cuts := _cut(unit, target)) > 1:
            slices += [Slice(split, len(cuts), cut, None if i else unit) for i, cut in enumerate(cuts)]
            split += 1
            del units[key]
    return Plan(_tasks_of(units, target), slices, split)


def _cut(unit: Task, target: int) -> list[Task]:
    """Cut a partition between segments, into slices of about `target` bytes each. With --replicas, each replica of the partition is cut."""
    cuts: list[Task] = []
    for found in unit:
        bytes_left = 0
        for segment in found.segments:
            size = segment.size_bytes + FILE_BYTES
            if size > bytes_left:
                cuts.append([LogDirectory(found.path)])
                bytes_left = max(target, size)
            cuts[-1][0].segments.append(segment)
            bytes_left -= size
    return cuts


def _target(total: int, cores: int) -> int:
    return max(min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, total // max(TASKS_WANTED, 3 * cores))), total // TASKS_MAX)


def _cost(unit: Task) -> int:
    return sum(file.size_bytes + FILE_BYTES for found in unit for file in found.segments)


def _tasks_of(units: dict[tuple[Any, ...], Task], target: int) -> list[Task]:
    sizes = {key: _cost(unit) for key, unit in units.items()}
    tasks: list[list[LogDirectory]] = []
    bytes_left = 0
    for key in sorted(units, key=lambda key: -sizes[key]):
        if sizes[key] > bytes_left:
            tasks.append([])
            bytes_left = max(target, sizes[key])
        tasks[-1] += units[key]
        bytes_left -= sizes[key]
    return [_merged(task) for task in tasks]


def size_of(logs: Iterable[LogDirectory]) -> int:
    """Return the total size in bytes of the segments of these logs."""
    return sum(found.size_bytes for found in logs)


def partitions_of(tasks: Iterable[Task]) -> int:
    """Return the number of log partitions in the tasks; a partition's replicas count one by one."""
    return sum(len({(s.topic, s.partition) for s in found.segments}) for task in tasks for found in task)


def shuffle_partitions_of(logs: Iterable[LogDirectory], spec: AuditSpec) -> int:
    """Return the number of shuffle partitions for the audit of logs of this size; each is the input of one task of the second step."""
    each = SHUFFLE_PARTITION_BYTES if spec.key_place is None else KEYS_SHUFFLE_PARTITION_BYTES
    return min(SHUFFLE_PARTITIONS_MAX, 1 + size_of(logs) // each)


def _units(logs: Sequence[LogDirectory], spec: AuditSpec) -> dict[tuple[Any, ...], Task]:
    """Group the partitions that the same task must judge, and return the groups; the dictionary's keys only distinguish them. A group is
    one partition of one directory. With --replicas, it has the partition's replicas in all directories. The partitions of a coordinator's
    topic, such as `__consumer_offsets`, are all in one group."""
    units: dict[tuple[Any, ...], dict[str, LogDirectory]] = defaultdict(dict)

    def of(found: LogDirectory, topic: str, partition: int) -> LogDirectory:
        where = () if spec.replicas else (found.path,)
        what = (topic,) if topic in COORDINATOR_TOPICS else (topic, partition)
        return units[where + what].setdefault(found.path, LogDirectory(found.path))

    def wanted(file: LogFile) -> bool:
        return not spec.topics or file.topic in spec.topics or file.topic == TRANSACTION_STATE

    for found in logs:
        for segment in filter(wanted, found.segments):
            of(found, segment.topic, segment.partition).segments.append(segment)
        for file in filter(wanted, found.side_files):
            of(found, file.topic, file.partition).side_files.append(file)
    marks = {found.path: found.high_watermarks for found in logs}
    for unit in units.values():
        for path, part in unit.items():
            places = {(file.topic, file.partition) for file in (*part.segments, *part.side_files)}
            part.high_watermarks = {place: marks[path][place] for place in places if place in marks[path]}
    return {key: list(unit.values()) for key, unit in units.items()}


def _merged(parts: Iterable[LogDirectory]) -> Task:
    """Merge the parts of each directory into one `LogDirectory`, and return one for each directory."""
    task: dict[str, LogDirectory] = {}
    for part in parts:
        whole = task.setdefault(part.path, LogDirectory(part.path))
        whole.segments += part.segments
        whole.side_files += part.side_files
        whole.high_watermarks |= part.high_watermarks
    return list(task.values())


def judge_tasks(work: Work, tasks: Iterable[Row]) -> Iterator[Row]:
    """Run the first step of the audit (see `steps`) on each task's partitions. For each task, yield its `Answer` for the driver, then the
    rows that the second step needs, by shuffle partition (see `steps.SHUFFLED`). Raises OSError if a log file cannot be read."""
    for _, content in tasks:
        task = [*_deserialized(content)]
        if work.stored is None:
            yield from _judge_task(work, task)
        else:
            digests = map(work.stored.digest, _units(task, work.spec).values())
            yield from work.stored.load_or_judge(digests, partial(_judge_task, work, task))


def _judge_task(work: Work, task: Task, rows_read: RowsRead | None = None) -> Iterator[Row]:
    with embedded_engine(size_of(task), work.memory_mb, threads=1) as engine:
        answer, available = judge_partitions(engine, work.spec, task, rows_read)
        yield ANSWER, pickle.dumps(answer)
        for number, blobs in _shuffled(engine, work, SHUFFLED.keys() & available.names):
            yield number, pickle.dumps(blobs)


def read_slices(work: Work, slices: Iterable[Row]) -> Iterator[Row]:
    """Read slices of large partitions. Each yielded row has the number of the slice's partition, and pickled data: ("batches" or "records",
    rows as an Arrow stream), or after a slice's last rows the end mark that SLICE_END describes. Raises OSError if a log file cannot be
    read."""
    for _, content in slices:
        number, count, cut, judged = _deserialized(content)
        read = partial(_read_slice, work, cut)
        for _, part in read() if work.stored is None else work.stored.load_or_judge([work.stored.digest(cut)], read):
            yield number, part
        yield number, pickle.dumps((SLICE_END, (judged, count)))


def _read_slice(work: Work, cut: Task) -> Iterator[Row]:
    for batch in coalesced(_rows_of("batches", cut, RAW_BATCHES_NEED, work.spec)):
        yield 0, pickle.dumps(("batches", _stream(pa.Table.from_batches([batch]))))
    if work.spec.reads_records:
        need, keyed = record_query(work.spec)
        with embedded_engine(0, work.memory_mb, threads=1) as engine:
            for rows in engine.mapped("records", _rows_of("records", cut, need, work.spec), keyed, work.spec.args):
                yield 0, pickle.dumps(("records", _stream(rows)))


def _rows_of(level: str, cut: Task, columns: str, spec: AuditSpec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one kind (`level`: "batches" or "records") of a slice. The first record batch is empty: it gives the schema even if
    the slice has no rows."""
    schema = arrow_schema(columns)
    yield pa.RecordBatch.from_pylist([], schema)
    yield from tables.read(level, cut, schema.names, Filters(topics=frozenset(spec.topics)))


def judge_slices(work: Work, rows: Iterable[Row]) -> Iterator[Row]:
    """Run the first step of the audit on partitions that were read in slices. `rows`: the rows that `read_slices` yields, with the rows of
    a partition adjacent. If a slice could not be read, its partition is not judged, and the row with the error is yielded unchanged."""
    for number, group in groupby(rows, itemgetter(0)):
        if number == ANSWER:
            yield from group
            continue
        with ExitStack() as stack:
            spools: dict[str, IO[bytes]] = {}
            task: Task = []
            ended, slices = 0, 1
            for _, content in group:
                level, part = pickle.loads(content)
                if level == SLICE_END:
                    judged, slices = part
                    task, ended = judged or task, ended + 1
                else:
                    if level not in spools:
                        spools[level] = stack.enter_context(tempfile.TemporaryFile(prefix="ottla-audit-"))
                    pickle.dump(part, spools[level])
            if ended < slices:  # a slice could not be read: a row with number ANSWER has the error
                continue
            judge = partial(_judge_task, work, task, {level: _spooled(spool) for level, spool in spools.items()})
            yield from judge() if work.stored is None else work.stored.load_or_judge([work.stored.digest(task)], judge)


def _spooled(spool: IO[bytes]) -> pa.RecordBatchReader:
    def streams() -> Iterator[bytes]:
        with suppress(EOFError):
            while True:
                yield pickle.load(spool)

    spool.seek(0)
    first = next(streams())
    return pa.RecordBatchReader.from_batches(pa.ipc.open_stream(first).schema, _batches(chain([first], streams())))


Blobs = dict[str, list[bytes]]
"""The rows that a task passes to one shuffle partition: for each view (table of the audit's SQL), its rows as Arrow IPC streams."""


def _shuffled(engine: EmbeddedEngine, work: Work, views: Iterable[str]) -> Iterator[tuple[int, Blobs]]:
    """Divide the rows that `steps.SHUFFLED` selects from `views` among the shuffle partitions. Yield pairs of a shuffle partition's number
    and its Arrow streams by view. A number is yielded several times if there are many rows. Every shuffle partition gets an empty stream of
    every view, so that the receiver knows the view's columns."""
    held: list[Blobs] = [{} for _ in range(work.shuffle_partitions)]
    size = 0
    for view in sorted(views):
        query, partition_by = SHUFFLED[view]
        batches = engine.batches(f"SELECT *, {partition_by or 0} % {work.shuffle_partitions} AS shuffle_partition FROM ({query})")
        schema = pa.schema([pa.field(f.name, _plain(f.type)) for f in batches.schema if f.name != "shuffle_partition"])
        for blobs in held:
            blobs.setdefault(view, []).append(_stream(schema.empty_table()))
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            plain = rows.drop_columns(["shuffle_partition"]).cast(schema)
            all_to_each = not partition_by or work.shuffle_partitions == 1
            for number, blobs in enumerate(held):
                mine = plain if all_to_each else plain.filter(pa.compute.equal(rows["shuffle_partition"], number))
                if mine.num_rows:
                    blobs[view].append(_stream(mine))
                    size += len(blobs[view][-1])
            if size > BLOB_BYTES:
                yield from enumerate(held)
                held, size = [{view: []} for _ in range(work.shuffle_partitions)], 0
    yield from enumerate(held)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a column's type for exchange between tasks: a string instead of the engine's enum, whose numbers differ between tasks, and
    int64 instead of the decimal that DuckDB returns for sums."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int64() if pa.types.is_decimal(kind) else kind


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def judge_shuffled(work: Work, rows: Iterable[Row]) -> Iterator[Row]:
    """Run the second step of the audit on whole shuffle partitions, and yield its answers. Before them, yield the first step's answers,
    merged into one.

    All answers of the first step go to the same task. Thousands of tasks may have findings; merging keeps only the first findings and the
    exact counts, so that the driver receives few rows.
    """
    inputs: dict[int, Blobs] = defaultdict(dict)
    merged = Merged(work.spec.samples)
    for number, pickled in rows:
        if number == ANSWER:
            answer: Answer | Exception = pickle.loads(pickled)
            if isinstance(answer, Exception):
                yield number, pickled
            else:
                merged.add(answer)
            continue
        given: Blobs = pickle.loads(pickled)
        for view, streams in given.items():
            inputs[number].setdefault(view, []).extend(streams)
    if merged.answers:
        yield ANSWER, pickle.dumps(merged.answer())
    for blobs in inputs.values():
        with embedded_engine(sum(map(len, chain.from_iterable(blobs.values()))), work.memory_mb, threads=1) as engine:
            for view, streams in blobs.items():
                engine.store_rows(view, pa.RecordBatchReader.from_batches(pa.ipc.open_stream(streams[0]).schema, _batches(streams)))
            yield ANSWER, pickle.dumps(judge_across(engine, work.spec, blobs.keys()))


def reporting_failures(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a step of the audit. On a read error or a lack of memory, end with a row for the driver that contains the
    exception.

    If the Python worker raised the exception instead, the driver would get only a text with the JVM's stack.
    """
    try:
        yield from rows
    except (MemoryError, duckdb.OutOfMemoryException) as e:
        yield ANSWER, pickle.dumps(MemoryError(str(e)))
    except (OSError, duckdb.IOException) as e:
        yield ANSWER, pickle.dumps(OSError(str(e)))


def _batches(streams: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for stream in streams:
        yield from pa.ipc.open_stream(stream)


def draw_tasks(work: Work, drawn: Sequence[Drawn], found: Sequence[FindingPlace], tasks: Iterable[Row]) -> Iterator[Row]:
    """For each task, compute the data for the HTML report's pictures of the partitions in `drawn`, and read the headers of the batches in
    `found` (see `steps.draw`). Yield one `Answer` per task. Raises OSError if a log file cannot be read."""
    for _, content in tasks:
        task = [*_deserialized(content)]
        with embedded_engine(size_of(task), work.memory_mb, threads=1) as engine:
            yield ANSWER, pickle.dumps(draw(engine, work.spec, task, drawn, found))
