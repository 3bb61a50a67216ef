from __future__ import annotations

import pytest

from client_compat.cluster_mixed.transactions import Outcome, TxnVerdict, judge, value_of

PARTITIONS = 3


def judged(outcome: Outcome, partitions: list[int]) -> TxnVerdict:
    """Return the verdict on one committed transaction that is readable, and a second one of `outcome` that is readable in `partitions`."""
    seen = [(partition, value_of("java", 0)) for partition in range(PARTITIONS)]
    more = [(partition, value_of("java", 1)) for partition in partitions]
    return judge({"java": [Outcome.COMMITTED, outcome]}, {"java": 2 if 0 in partitions else 1}, PARTITIONS, [*seen, *more])


@pytest.mark.parametrize(
    ("outcome", "partitions"), [(Outcome.COMMITTED, [0, 1, 2]), (Outcome.ABORTED, []), (Outcome.UNKNOWN, []), (Outcome.UNKNOWN, [2, 0, 1])]
)
def test_transaction_with_its_reported_outcome_is_good(outcome: Outcome, partitions: list[int]) -> None:
    assert judged(outcome, partitions).good


@pytest.mark.parametrize(
    ("outcome", "partitions", "what"),
    [
        (Outcome.COMMITTED, [], "lost"),
        (Outcome.COMMITTED, [0, 1], "torn"),
        (Outcome.UNKNOWN, [1], "torn"),
        (Outcome.COMMITTED, [0, 1, 1, 2], "doubled"),
        (Outcome.ABORTED, [0, 1, 2], "shown"),
        (Outcome.ABORTED, [2], "shown"),
        (Outcome.ABORTED, [7], "strange"),
    ],
)
def test_each_violation_is_counted_under_its_name(outcome: Outcome, partitions: list[int], what: str) -> None:
    verdict = judged(outcome, partitions)
    assert getattr(verdict, what) == 1
    assert not verdict.good
    assert len(verdict.samples) == 1


@pytest.mark.parametrize("offset", [0, 2])
def test_group_offset_other_than_the_last_visible_transactions_is_torn(offset: int) -> None:
    seen = [(partition, value_of("java", 0)) for partition in range(PARTITIONS)]
    verdict = judge({"java": [Outcome.COMMITTED, Outcome.ABORTED]}, {"java": offset}, PARTITIONS, seen)
    assert (verdict.torn, verdict.good) == (1, False)


def test_run_without_a_commit_is_not_good() -> None:
    assert not judge({"java": [Outcome.ABORTED]}, {"java": 0}, PARTITIONS, []).good
