from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.support.places import place
from client_compat.support.raised_epochs import excuse
from client_compat.support.verdict import AckVerdict, Double
from ottla.protocol.records.record import SimpleRecord, build_batch


def batch(offset: int, producer: tuple[int, int]) -> bytes:
    record = SimpleRecord(None, b"v", 1)
    return bytes(build_batch([record], base_offset=offset, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0))


@pytest.mark.parametrize(
    ("client", "writers", "excused"),
    [
        ("confluent-kafka", [(7, 0), (7, 1)], 1),
        ("confluent-kafka", [(7, 0), (7, 0)], 0),
        ("confluent-kafka", [(7, 0), (8, 1)], 0),
        ("confluent-kafka", [(7, 0), (7, 1), (7, 1)], 0),
        ("confluent-kafka", [(-1, -1), (-1, 0)], 0),
        ("java", [(7, 0), (7, 1)], 0),
    ],
)
def test_duplicate_under_two_epochs_of_one_producer_is_excused_only_for_librdkafka(
    tmp_path: Path, client: str, writers: list[tuple[int, int]], excused: int
) -> None:
    (tmp_path / "t-3").mkdir()
    (tmp_path / "t-3" / f"{0:020}.log").write_bytes(batch(0, (1, 0)))
    (tmp_path / "t-3" / f"{1:020}.log").write_bytes(b"".join(batch(number + 1, writer) for number, writer in enumerate(writers)))
    verdict = AckVerdict(acked=5)
    double = Double(client, 4, tuple(place(3, number + 1) for number in range(len(writers))))
    verdict.doubled, verdict.doubles = 1, [double]
    verdict.note(str(double))
    excuse(verdict, tmp_path, "t")
    assert (verdict.excused, verdict.doubled, len(verdict.samples)) == (excused, 1 - excused, 1 - excused)
    assert verdict.good is bool(excused)
