from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.testing.anomalies import Anomaly, Observations, by_value, judge
from ottla.broker.testing.explanation import explain
from ottla.protocol.error_codes import ErrorCode
from tests.support.histories import send, stored


def duplicates(copies: int) -> list[Anomaly]:
    """Return the anomalies of one record that is stored `copies` times after retries without a producer id."""
    sends = tuple(send(b"a", offset, seen=offset == copies - 1) for offset in range(copies))
    return judge(Observations(sends, (), tuple(stored(b"a", offset) for offset in range(copies)), by_value))


def test_an_explanation_lists_every_attempt_and_the_reason() -> None:
    text = explain(duplicates(2))
    assert "1 duplicate" in text
    assert (
        "1. 00:00:00.000 client app on connection 1 sent 1 record to t-0 (no producer id): appended at 0, and the acknowledgement was lost"
        in text
    )
    assert "2. 00:00:00.000 client app on connection 1 sent 1 record to t-0 (no producer id): appended at 1, acknowledged" in text
    assert "enable idempotence" in text


def test_anomalies_of_each_kind_are_counted() -> None:
    (duplicate,) = duplicates(2)
    missing = Anomaly("missing", "b was expected and cannot be read")
    assert explain([duplicate, missing, duplicate]).splitlines()[0] == "not exactly once: 2 duplicates, 1 missing"


def test_held_acknowledgement_is_not_explained_as_received() -> None:
    sends = (send(b"a", 0, seen=False, late=True), send(b"a", 1))
    (anomaly,) = judge(Observations(sends, (), (stored(b"a", 0), stored(b"a", 1)), by_value))
    assert "appended at 0, and the acknowledgement was held back\n" in explain([anomaly])


@pytest.mark.parametrize(
    ("writers", "reason"),
    [
        (((1, 0), (2, 0)), "different producer ids"),
        (((1, 0), (1, 1)), "different epochs"),
        (((1, 0), (1, 0)), "the application sent it twice"),
    ],
)
def test_an_explanation_names_the_reason_of_a_duplicate(writers: tuple[tuple[int, int], ...], reason: str) -> None:
    logs = tuple(stored(b"a", offset, producer_id=pid, epoch=epoch) for offset, (pid, epoch) in enumerate(writers))
    assert reason in explain(judge(Observations((), (), logs, by_value)))


def test_long_list_of_anomalies_is_cut_with_the_number_of_others() -> None:
    logs = tuple(stored(b"%d" % number, offset) for number in range(12) for offset in (number, number + 100))
    assert "… and 2 more" in explain(judge(Observations((), (), logs, by_value)))


def test_only_some_attempts_of_a_record_are_explained() -> None:
    assert "… and 2 more attempts" in explain(duplicates(10))


def test_outcome_of_each_attempt_is_explained() -> None:
    attempts = (
        send(b"a", error=ErrorCode.NOT_LEADER_OR_FOLLOWER, faults=("moved",)),
        send(b"a", acks=0),
        send(b"a", -1, seen=False),
    )
    text = explain([Anomaly("missing", "a was expected", sends=attempts)], ["crc: t-0@0 wrong checksum"])
    for said in ("refused, NOT_LEADER_OR_FOLLOWER (fault moved)", "sent without a response (acks=0)", "never handled", "crc: t-0@0"):
        assert said in text


def test_records_of_one_request_are_explained_together() -> None:
    together = [replace(send(b"a", offset), records=((None, b"a"), (None, b"b"), (None, b"c"))) for offset in (0, 3)]
    logs = [stored(value, offset + delta) for offset in (0, 3) for delta, value in enumerate((b"a", b"b", b"c"))]
    alone = [stored(b"x", 6), stored(b"x", 7), stored(b"y", 8), stored(b"y", 9)]
    text = explain(judge(Observations(together, (), [*logs, *alone], by_value)))
    assert "5 duplicate" in text
    assert text.count("is readable 2 times") == 3, "a stands for b and c; x and y were sent by nobody known, each by itself"
    assert "a is readable 2 times: t-0@0, t-0@3 (and 2 more records of the same sends)" in text
