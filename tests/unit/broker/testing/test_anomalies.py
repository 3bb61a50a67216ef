"""The smallest history that has each anomaly, and legal histories that have none."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.testing.anomalies import Observations, by_key, by_value, judge
from ottla.broker.testing.contents import Stored, Visibility
from ottla.broker.testing.history import Read, Send
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.histories import send, stored

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def read(value: bytes, offset: int, *aborted: tuple[int, int], producer_id: int = 7) -> Read:
    header = read_header(build_batch([SimpleRecord(None, value, 1)], base_offset=offset, producer_id=producer_id, producer_epoch=0))
    return Read(0, 2, "reader", True, "t", 0, ((header, ((offset, (None, value)),)),), aborted)


def case(*, sends: tuple[Send, ...] = (), logs: tuple[Stored, ...] = (), reads: tuple[Read, ...] = (), **more: Any) -> Observations:
    return Observations(sends, reads, logs, by_value, **more)


LEGAL = {
    "acknowledged and there": case(sends=(send(b"a", 0),), logs=(stored(b"a", 0),)),
    "refused, then written": case(sends=(send(b"a", error=REFUSED), send(b"a", 0)), logs=(stored(b"a", 0),)),
    "a lost acknowledgement whose retry got the original offset": case(
        sends=(send(b"a", 0, seen=False), send(b"a", 0)), logs=(stored(b"a", 0),)
    ),
    "an unknown send that was not written": case(sends=(send(b"a", seen=False),)),
    "acknowledged, then deleted by retention": case(sends=(send(b"a", 0),), begins={("t", 0): 1}),
    "acknowledged, then compacted": case(sends=(send(b"a", 0),), compacted={"t"}),
    "aborted, then sent again": case(
        sends=(send(b"a", 0), send(b"a", 2)), logs=(stored(b"a", 0, Visibility.ABORTED), stored(b"a", 2, Visibility.COMMITTED))
    ),
    "aborted data that the consumer was told of": case(logs=(stored(b"a", 0, Visibility.ABORTED),), reads=(read(b"a", 0, (7, 0)),)),
    "acks 0 promises nothing": case(sends=(send(b"a", acks=0),)),
}

WRONG = {
    "duplicate": case(sends=(send(b"a", 0, seen=False), send(b"a", 1)), logs=(stored(b"a", 0), stored(b"a", 1))),
    "lost-write": case(sends=(send(b"a", 0),), logs=(stored(b"b", 0),), compacted={"t"}),
    "inconsistent-offsets": case(logs=(stored(b"a", 0),), reads=(read(b"a", 0), read(b"b", 0))),
    "G1a": case(logs=(stored(b"a", 5, Visibility.ABORTED),), reads=(read(b"a", 5, (8, 0), (7, 6)),)),
    "nonmonotonic-send": case(sends=(send(b"a", error=REFUSED), send(b"b", 0), send(b"a", 1)), logs=(stored(b"b", 0), stored(b"a", 1))),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_history_has_no_anomaly(name: str) -> None:
    assert judge(LEGAL[name]) == []


@pytest.mark.parametrize("kind", WRONG)
def test_each_anomaly_is_found_alone(kind: str) -> None:
    assert [anomaly.kind for anomaly in judge(WRONG[kind])] == [kind]


def test_records_of_an_aborted_transaction_have_no_expected_order() -> None:
    def attempt(value: bytes, offset: int, epoch: int) -> Send:
        return send(value, offset, transactional_id="tx", producer_id=7, producer_epoch=epoch)

    sends = (attempt(b"a", 0, 0), attempt(b"b", 2, 1), attempt(b"a", 3, 1))
    logs = (
        stored(b"a", 0, Visibility.ABORTED, 7, 0),
        stored(b"b", 2, Visibility.COMMITTED, 7, 1),
        stored(b"a", 3, Visibility.COMMITTED, 7, 1),
    )
    assert judge(case(sends=sends, logs=logs)) == []
    turned = (attempt(b"a", 0, 0), attempt(b"a", 3, 1), attempt(b"b", 2, 1))
    assert [each.kind for each in judge(case(sends=turned, logs=logs))] == ["nonmonotonic-send"]


def test_idempotent_producer_with_a_bumped_epoch_can_still_be_out_of_order() -> None:
    sends = (
        send(b"a", producer_id=7, producer_epoch=0, error=REFUSED),
        send(b"b", 0, producer_id=7, producer_epoch=0),
        send(b"a", 1, producer_id=7, producer_epoch=1),
    )
    logs = (stored(b"b", 0, Visibility.PLAIN, 7, 0), stored(b"a", 1, Visibility.PLAIN, 7, 1))
    assert [each.kind for each in judge(case(sends=sends, logs=logs))] == ["nonmonotonic-send"]


def test_missing_and_unexpected_records_are_both_reported() -> None:
    found = judge(case(logs=(stored(b"a", 0), stored(b"x", 1), stored(b"b", 2, Visibility.ABORTED))), expected=[b"a", b"b"])
    assert [(each.kind, each.says) for each in found] == [
        ("missing", "b was expected and cannot be read; it is stored aborted"),
        ("unexpected", "x was not expected"),
    ]


def test_records_can_be_identified_by_key() -> None:
    twice = (Stored("t", 0, 0, b"k", b"v1", -1, -1, -1, Visibility.PLAIN), Stored("t", 1, 0, b"k", b"v2", -1, -1, -1, Visibility.PLAIN))
    assert [each.kind for each in judge(Observations((), (), twice, by_key))] == ["duplicate"]
    assert judge(Observations((), (), twice, by_value)) == []
