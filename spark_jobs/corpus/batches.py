"""Small logs with one planted anomaly or one legal oddity each, and the exact findings of the audit for each of them."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

from ottla.protocol.records.batch import CONTROL, HEADER_BYTES, LOG_APPEND_TIME, stamp
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint, flip, numbered, old_message, reheaded

DAY_MS = 86_400_000


def sound(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for codec in Codec:
        log.data(5, pid=1, seq=5 * codec, codec=codec)
    log.roll()
    log.data(3)
    log.data(5, pid=2, seq=0)
    PartitionWriter(root, "t", 1)


def same_batch_twice(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=5)
    log.data(5, pid=1, seq=10)
    log.data(5, pid=1, seq=5)
    log.data(5, pid=1, seq=15)


def overlapping_sequences(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(10, pid=1, seq=0)
    log.data(10, pid=1, seq=5)
    log.data(5, pid=1, seq=15)


def gap(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=2, seq=0)
    log.data(5, pid=1, seq=8)
    log.data(5, pid=1, seq=13)


def late(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for seq in (0, 10, 5, 15):
        log.data(5, pid=1, seq=seq)


def zombie(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=0, seq=0)
    log.data(5, pid=1, epoch=1, seq=0)
    log.data(5, pid=1, epoch=0, seq=5)
    log.data(5, pid=1, epoch=1, seq=5)


def zombie_after_marker(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=0, seq=0, transactional=True)
    log.marker(1, epoch=1)
    log.data(5, pid=1, epoch=0, seq=5, transactional=True)


def epoch_not_at_zero(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=0, seq=0)
    log.data(5, pid=1, epoch=1, seq=5)
    log.data(5, pid=1, epoch=1, seq=10)


def regress(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(10)
    log.data(10)
    log.data(5, offset=3)
    log.data(5)


def overlap(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(10)
    log.data(10, offset=7)
    log.data(5)


def below_segment(root: Path) -> None:
    log = PartitionWriter(root, "t", 0, start=100)
    log.data(5, offset=40)


def negative_offset(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    sign = log.file.stat().st_size
    log.data(5)
    log.data(5)
    flip(log.file, sign, 0x80)


def negative_first_offset(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.data(5)
    flip(log.file, 0, 0x80)


def offset_at_the_end_of_numbers(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.data(5, offset=2**63 - 3)
    log.next_offset = 10
    log.data(5)


def below_the_log_start_behind_it(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.data(5)
    log.data(5, offset=1)
    log.data(5)
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, 7)])


def hole(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.data(5, offset=8)


def cut_at_a_batch(root: Path, *, clean: bool = True) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    PartitionWriter(root, "t", 1)
    checkpoint(root, "replication-offset-checkpoint", [("t", 0, 10), ("t", 1, 3), ("t", 2, 9)])
    if clean:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def high_watermarks_of_a_kept_tail(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    PartitionWriter(root, "t", 1, start=7)
    log = PartitionWriter(root, "t", 2)
    log.data(5)
    PartitionWriter(root, "t", 3).data(5)
    checkpoint(root, "log-start-offset-checkpoint", [("t", 2, 5)])
    checkpoint(root, "replication-offset-checkpoint", [("t", 0, 5), ("t", 1, 7), ("t", 2, 5), ("t", 3, 4)])
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def flipped_bit(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    position = log.file.stat().st_size
    log.data(5, pid=1, seq=5)
    log.data(5, pid=1, seq=10)
    flip(log.file, position + HEADER_BYTES + 7)


def flipped_bit_of_an_old_message(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for offset in range(3):
        log.raw(old_message(offset, b"value"))
    log.next_offset = 3
    log.data(5)
    flip(log.file, len(old_message(0, b"value")) + 35)


def damaged_magic(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    magic = log.file.stat().st_size + 16
    log.data(5)
    flip(log.file, magic, 0x02)


def damaged_length(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    position = log.file.stat().st_size
    log.data(5, pid=1, seq=5)
    log.data(5, pid=1, seq=10)
    flip(log.file, position + 9)


def damaged_length_of_the_last(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    position = log.file.stat().st_size
    log.data(5)
    flip(log.file, position + 9)


def cut_in_the_middle(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.raw(b"\1" * 40)
    log.next_offset = 10
    log.roll()
    log.data(5)


def torn_tail(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    head, tail = stamp(build_batch(numbered(5)), 5, 0)
    log.raw((head + bytes(tail))[:-9])


def zero_tail(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5)
    log.raw(bytes(4096))
    for suffix in ("index", "timeindex"):
        log.file.with_suffix(f".{suffix}").write_bytes(bytes(10_485_760))


def torn_after_clean_stop(root: Path) -> None:
    torn_tail(root)
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def too_few_records(root: Path) -> None:
    PartitionWriter(root, "t", 0).batch(reheaded(build_batch(numbered(5)), last_offset_delta=7))


def too_many_records(root: Path) -> None:
    PartitionWriter(root, "t", 0).batch(reheaded(build_batch(numbered(5)), last_offset_delta=2))


def without_a_sequence(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=-1)
    PartitionWriter(root, "__consumer_offsets", 0).data(5, pid=1, seq=-1, transactional=False)


def unreadable_marker(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0, transactional=True)
    log.marker(1)
    for kind, value in ((1, b""), (9, b"of a kind that is not known here")):
        record = SimpleRecord(struct.pack(">hh", 0, kind), value, T0)
        log.batch(build_batch([record], producer_id=1, producer_epoch=0, transactional=True, control=True))


def record_missing(root: Path) -> None:
    PartitionWriter(root, "t", 0).batch(reheaded(build_batch(numbered(5)), record_count=6, last_offset_delta=5))


def key_twice(root: Path) -> None:
    PartitionWriter(root, "t", 0).data(rows=["a", "b"])
    other = PartitionWriter(root, "t", 1)
    other.data(rows=["c", "b"], at=T0 + 1)
    other.data(rows=["d"])
    PartitionWriter(root, "u", 0).data(rows=["a"])


def several_at_once(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=2, seq=0)
    log.data(5, pid=2, seq=9)


def wrap(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=2**31 - 8)
    log.data(5, pid=1, seq=2**31 - 3)
    log.data(5, pid=1, seq=2)
    log.data(5, pid=2, seq=2**31 - 5)
    log.data(5, pid=2, seq=0)


def duplicate_across_the_wrap(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=2**31 - 5)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=2**31 - 5)
    log.data(5, pid=1, seq=5)


def resent_with_old_times(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for seq, days in ((0, 0), (5, 2), (0, 0), (10, 2)):
        log.data(pid=1, seq=seq, rows=[{"day": days, "seq": seq + i} for i in range(5)], at=T0 + days * DAY_MS)


def deleted_head(root: Path) -> None:
    log = PartitionWriter(root, "t", 0, start=500)
    log.marker(3, epoch=2, committed=False)
    log.data(5, pid=3, epoch=2, seq=77)
    log.data(5, pid=1, epoch=4, seq=41)


def deleted_records(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(rows=["a", "b"])
    log.data(rows=["c", "b"])
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, 3)])


def expired_producer(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=1, seq=10)
    log.data(5, pid=1, epoch=1, seq=0, at=T0 + DAY_MS)
    log.data(5, pid=1, epoch=1, seq=5, at=T0 + DAY_MS)


def epoch_bump(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=0, seq=40)
    log.data(5, pid=1, epoch=1, seq=0)
    log.marker(1, epoch=2, committed=False)
    log.data(5, pid=1, epoch=2, seq=0)


def compacted(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    log.data(5, pid=1, seq=20, offset=20)
    sparse = build_batch(numbered(5), producer_id=1, producer_epoch=0, base_sequence=25)
    log.batch(reheaded(sparse, last_offset_delta=9))
    emptied = reheaded(build_batch(numbered(1))[:HEADER_BYTES], last_offset_delta=4, record_count=0, base_timestamp=-1)
    log.batch(emptied)
    log.data(5, pid=1, epoch=1, seq=4, offset=50)
    checkpoint(root, "cleaner-offset-checkpoint", [("t", 0, 60)])


def aborted(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=["a"], transactional=True)
    log.marker(1, committed=False)
    log.data(pid=1, seq=1, rows=["a"], transactional=True)
    log.marker(1)


def compacted_transactions(root: Path) -> None:
    """Write a log in which compaction removed the data of a committed and of an aborted transaction, but not their markers."""
    log = PartitionWriter(root, "t", 0)
    log.data(pid=1, seq=0, rows=["a"], transactional=True)
    log.marker(1)
    for committed in (True, False):
        log.next_offset += 1
        log.marker(1, epoch=1, committed=committed)
    log.data(pid=1, epoch=1, seq=2, rows=["b"], transactional=True)
    log.marker(1, epoch=1)
    checkpoint(root, "cleaner-offset-checkpoint", [("t", 0, 8)])


def resent_before_a_later_session(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for seq, days in ((0, 0), (5, 0), (10, 2), (0, 0), (15, 2), (20, 2)):
        log.data(pid=1, seq=seq, rows=[seq + i for i in range(5)], at=T0 + days * DAY_MS)


def internal(root: Path) -> None:
    metadata = PartitionWriter(root, "__cluster_metadata", 0)
    metadata.batch(reheaded(build_batch(numbered(2)), attributes=CONTROL))
    metadata.data(rows=["a", "a"])
    log = PartitionWriter(root, "t", 0)
    log.data(rows=["a"])
    for renamed in ("t-0.0123456789abcdef0123456789abcdef-delete", "t-1.0123456789abcdef0123456789abcdef-stray"):
        (root / renamed).mkdir()
        (root / renamed / f"{0:020d}.log").write_bytes(b"\0\1\2" * 99)


def leader_epoch_regress(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for leader_epoch in (0, 2, 5, 3, 3, 5, 6):
        log.data(leader_epoch=leader_epoch)


def leader_epochs_unknown(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for leader_epoch in (-1, 0, -1, 0, 3):
        log.data(leader_epoch=leader_epoch)


def wrong_max_timestamp(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data()
    log.batch(reheaded(build_batch(numbered(5)), max_timestamp=T0 + 1))


def append_times(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for at in (0, 5 * 60_000, 1, 2):
        log.batch(reheaded(build_batch([SimpleRecord(b"k", b"{}", T0 - at)]), attributes=LOG_APPEND_TIME, max_timestamp=T0 + at))


BATCHES: dict[str, Case] = {
    "sound": Case(sound, []),
    "same_batch_twice": Case(same_batch_twice, [("duplicate-sequence", "violation", "same batch twice", "t-0@15")]),
    "overlapping_sequences": Case(overlapping_sequences, [("duplicate-sequence", "violation", "sequences overlap", "t-0@10")]),
    "gap": Case(gap, [("sequence-gap", "violation", "sequence gap", "t-0@10")]),
    "late": Case(late, [("sequence-order", "violation", "arrived late", "t-0@10")]),
    "zombie": Case(zombie, [("epochs", "violation", "epoch regress", "t-0@10")]),
    "zombie_after_marker": Case(
        zombie_after_marker,
        [
            ("hanging-transaction", "violation", "orphan: a newer epoch wrote", "t-0@6"),
            ("zombie-batch", "violation", "behind a marker", "t-0@6"),
        ],
    ),
    "epoch_not_at_zero": Case(epoch_not_at_zero, [("epochs", "violation", "new epoch not at 0", "t-0@5")]),
    "regress": Case(regress, [("offsets", "violation", "offset regress", "t-0@3")]),
    "overlap": Case(overlap, [("offsets", "violation", "offset overlap", "t-0@7")]),
    "below_segment": Case(below_segment, [("offsets", "violation", "below its segment", "t-0@40")]),
    "negative_offset": Case(
        negative_offset,
        [("offsets", "violation", "below its segment", f"t-0@{5 - 2**63}"), ("offsets", "info", "offset gap", "t-0@10")],
    ),
    "negative_first_offset": Case(negative_first_offset, [("offsets", "violation", "below its segment", f"t-0@{-(2**63)}")]),
    "offset_at_the_end_of_numbers": Case(
        offset_at_the_end_of_numbers,
        [("offsets", "warning", "offset gap", f"t-0@{2**63 - 3}"), ("offsets", "violation", "offset regress", "t-0@10")],
    ),
    "below_the_log_start_behind_it": Case(below_the_log_start_behind_it, [("offsets", "violation", "offset regress", "t-0@1")]),
    "hole": Case(hole, [("offsets", "warning", "offset gap", "t-0@8")]),
    "leader_epoch_regress": Case(leader_epoch_regress, [("leader-epochs", "violation", "leader epoch regress", "t-0@15")]),
    "leader_epochs_unknown": Case(leader_epochs_unknown, []),
    "wrong_max_timestamp": Case(wrong_max_timestamp, [("timestamps", "warning", "largest timestamp is not that of the records", "t-0@5")]),
    "append_times": Case(append_times, [("timestamps", "info", "append time regress", "t-0@2")]),
    "cut_at_a_batch": Case(
        cut_at_a_batch,
        [("log-end", "violation", "ends below its high watermark", f"t-{place}") for place in ("0@5", "1@0")],
    ),
    "cut_at_a_batch_in_a_kill": Case(
        partial(cut_at_a_batch, clean=False),
        [("log-end", "warning", "ends below its high watermark", f"t-{place}") for place in ("0@5", "1@0")],
    ),
    "high_watermarks_of_a_kept_tail": Case(high_watermarks_of_a_kept_tail, []),
    "flipped_bit": Case(flipped_bit, [("crc", "violation", "wrong CRC", "t-0@5")]),
    "flipped_bit_of_an_old_message": Case(flipped_bit_of_an_old_message, [("crc", "violation", "wrong CRC", "t-0@1")]),
    "damaged_magic": Case(damaged_magic, [("crc", "violation", "wrong CRC", "t-0@5")]),
    "damaged_length": Case(damaged_length, [("crc", "violation", "no batch", "t-0@?")]),
    "damaged_length_of_the_last": Case(damaged_length_of_the_last, [("crc", "violation", "no batch", "t-0@?")]),
    "cut_in_the_middle": Case(cut_in_the_middle, [("crc", "violation", "no batch", "t-0@?")]),
    "torn_tail": Case(torn_tail, [("crc", "info", "torn tail", "t-0@?")]),
    "zero_tail": Case(zero_tail, [("crc", "info", "torn tail", "t-0@?")]),
    "torn_after_clean_stop": Case(torn_after_clean_stop, [("crc", "warning", "torn tail", "t-0@?")]),
    "too_few_records": Case(too_few_records, [("counts", "violation", "fewer records than offsets", "t-0@0")]),
    "too_many_records": Case(too_many_records, [("counts", "violation", "more records than offsets", "t-0@0")]),
    "without_a_sequence": Case(without_a_sequence, [("counts", "violation", "producer without a sequence", "t-0@0")]),
    "unreadable_marker": Case(unreadable_marker, [("counts", "violation", "records unreadable", "t-0@6")]),
    "record_missing": Case(record_missing, [("counts", "violation", "records unreadable", "t-0@0")]),
    "key_twice": Case(key_twice, [("business-key", "violation", "key seen before", "t-1@1")]),
    "several_at_once": Case(
        several_at_once,
        [("duplicate-sequence", "violation", "same batch twice", "t-0@5"), ("sequence-gap", "violation", "sequence gap", "t-0@15")],
    ),
    "wrap": Case(wrap, []),
    "duplicate_across_the_wrap": Case(duplicate_across_the_wrap, [("duplicate-sequence", "violation", "same batch twice", "t-0@10")]),
    "resent_with_old_times": Case(
        resent_with_old_times,
        [
            ("duplicate-sequence", "violation", "same batch twice", "t-0@10"),
            *[("business-key", "violation", "key seen before", f"t-0@{offset}") for offset in range(10, 15)],
        ],
    ),
    "deleted_head": Case(deleted_head, []),
    "deleted_records": Case(deleted_records, []),
    "expired_producer": Case(expired_producer, []),
    "epoch_bump": Case(epoch_bump, []),
    "compacted": Case(compacted, [("offsets", "info", "offset gap", "t-0@20"), ("offsets", "info", "offset gap", "t-0@50")]),
    "aborted": Case(aborted, []),
    "compacted_transactions": Case(
        compacted_transactions, [("offsets", "info", "offset gap", "t-0@3"), ("offsets", "info", "offset gap", "t-0@5")]
    ),
    "resent_before_a_later_session": Case(
        resent_before_a_later_session,
        [
            ("duplicate-sequence", "violation", "same batch twice", "t-0@15"),
            *[("business-key", "violation", "key seen before", f"t-0@{offset}") for offset in range(15, 20)],
        ],
    ),
    "internal": Case(internal, []),
}
