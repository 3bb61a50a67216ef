"""Data directories of several brokers, with equal replicas and with different ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint

TWO = ("a", "b")
THREE = ("a", "b", "c")


def _brokers(root: Path, names: tuple[str, ...], high_watermark: int | None) -> Iterator[tuple[str, PartitionWriter]]:
    for name in names:
        log = PartitionWriter(root / name, "t", 0)
        if high_watermark is not None:
            checkpoint(root / name, "replication-offset-checkpoint", [("t", 0, high_watermark)])
        yield name, log


def equal(root: Path) -> None:
    for _, log in _brokers(root, THREE, high_watermark=10):
        log.data(5, pid=1, seq=0)
        log.data(5, leader_epoch=1)


def other_starts_and_ends(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=15):
        for at in range(4 if name == "a" else 3):
            log.data(rows=[f"{at}-{i}" for i in range(5)])
        if name == "b":
            log.data(rows=[f"not yet replicated {i}" for i in range(5)], leader_epoch=1)
            checkpoint(root / name, "log-start-offset-checkpoint", [("t", 0, 5)])


def compacted_apart(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=11):
        log.data(5)
        if name == "a":
            log.data(5)
        else:
            log.next_offset = 10
        log.data(rows=["end"])
        checkpoint(root / name, "cleaner-offset-checkpoint", [("t", 0, 10)])


def other_bytes(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=6):
        log.data(2)
        log.data(rows=["x", "z" if name == "b" else "y"], pid=1, seq=0)
        log.data(2)


def the_first_is_alone(root: Path) -> None:
    for name, log in _brokers(root, THREE, high_watermark=1):
        log.data(rows=["mine" if name == "a" else "ours"])


def other_leader_epoch(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=10):
        log.data(5)
        log.data(5, leader_epoch=1 if name == "a" else 2)


def missing(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=11):
        log.data(5)
        if name == "a":
            log.data(5)
        log.data(rows=["end"], offset=10)


def without_high_watermarks(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=None):
        log.data(rows=[name])


def other_record_after_compaction(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=2):
        log.data(rows=["same"])
        log.data(rows=[name])
        checkpoint(root / name, "cleaner-offset-checkpoint", [("t", 0, 2)])


def other_headers_after_compaction(root: Path) -> None:
    for name, log in _brokers(root, TWO, high_watermark=2):
        log.batch(build_batch([SimpleRecord(b"k", b"v", T0, [("from", name.encode())])]))
        log.batch(build_batch([SimpleRecord(b"k", b"v", T0 + len(name), [("from", None)])]))
        checkpoint(root / name, "cleaner-offset-checkpoint", [("t", 0, 2)])


REPLICAS: dict[str, Case] = {
    "replicas_equal": Case(equal, [], THREE),
    "replicas_with_other_starts_and_ends": Case(other_starts_and_ends, [], TWO),
    "replicas_compacted_apart": Case(compacted_apart, [("offsets", "info", "offset gap", "t-0@10")], TWO),
    "replicas_with_other_bytes": Case(other_bytes, [("replicas", "violation", "different bytes", "t-0@2")], TWO),
    "replicas_outvoted": Case(the_first_is_alone, [("replicas", "violation", "different bytes", "t-0@0")], THREE),
    "replicas_of_other_leader_epochs": Case(other_leader_epoch, [("replicas", "violation", "different bytes", "t-0@5")], TWO),
    "replicas_missing": Case(
        missing, [("replicas", "violation", "missing here", "t-0@5"), ("offsets", "warning", "offset gap", "t-0@10")], TWO
    ),
    "replicas_without_high_watermarks": Case(without_high_watermarks, [("replicas", "warning", "different bytes", "t-0@0")], TWO),
    "replicas_compacted_with_another_record": Case(
        other_record_after_compaction, [("replicas", "violation", "different records", "t-0@1")], TWO
    ),
    "replicas_compacted_with_other_headers": Case(
        other_headers_after_compaction, [("replicas", "violation", "different records", "t-0@0")], TWO
    ),
}
