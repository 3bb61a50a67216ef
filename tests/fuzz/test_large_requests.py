"""The short form of `python -m client_compat.fuzz.large_requests`: the largest requests of a few APIs do not hold the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.fuzz.large_requests import ADMIN, GUEST, NOBODY, OTTLA, PIPELINED, Target, cases, measure, targets
from client_compat.fuzz.watched import LongestTurn
from ottla.protocol.api_keys import ApiKey

ELEMENTS = 40_000
FAR_TOO_LONG_MS = 100.0
"""Twice the limit of the long form, because other tests run beside this one. When the broker handled a request in one piece, each of these
APIs took more than that for a user without rights or for a super user."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Target]]:
    with targets(tmp_path_factory.mktemp("large"), with_kafka=False) as found:
        yield found


@pytest.mark.parametrize(
    "key",
    [ApiKey.FETCH, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DELETE_GROUPS],
    ids=lambda key: key.name,
)
def test_largest_request_of_an_api_does_not_block_the_event_loop(brokers: list[Target], key: ApiKey) -> None:
    rows = list(measure(brokers, [key], seconds=0, pipelined=[1], elements=ELEMENTS))
    assert {row.who for row in rows} == {NOBODY, GUEST, ADMIN}
    for row in rows:
        found = row.found[OTTLA]
        assert not found.end, row.attack.array
        assert found.turn_ms is not None
        assert 0 < found.turn_ms < FAR_TOO_LONG_MS, (row.attack.array, row.who)
        assert found.answers == (0 if row.who == NOBODY else 1), (row.attack.array, row.who)


def test_the_longest_turn_is_shared_between_processes(tmp_path: Path) -> None:
    written, read = (LongestTurn(tmp_path / "longest-turn") for _ in range(2))
    written.add(3.0)
    written.add(2.0)
    assert read.ms == 3.0
    read.reset()
    assert written.ms == 0.0


def test_only_a_full_run_sends_pipelined_and_unauthenticated_requests() -> None:
    assert cases() == ((GUEST, ADMIN), (1,))
    assert cases([NOBODY]) == ([NOBODY], (1,))
    assert cases(whole=True) == ((NOBODY, GUEST, ADMIN), (1, PIPELINED))
