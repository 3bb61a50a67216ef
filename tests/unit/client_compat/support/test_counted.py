from __future__ import annotations

import pytest

from client_compat.cluster_mixed.groups import GroupVerdict
from client_compat.cluster_mixed.replicas import ReplicasVerdict
from client_compat.cluster_mixed.transactions import TxnVerdict
from client_compat.streams.outputs import Counts
from client_compat.support.counted import SAMPLES_MAX, Counted
from client_compat.support.verdict import AckVerdict

KINDS = (AckVerdict, TxnVerdict, GroupVerdict, ReplicasVerdict, Counts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_verdict_is_good_only_if_something_was_judged_and_nothing_is_wrong(kind: type[Counted]) -> None:
    assert not kind().good
    assert kind(**{kind.JUDGED: 1}).good
    for name in kind.WRONG:
        assert not kind(**{kind.JUDGED: 1, name: 1}).good


def test_wrong_counts_can_exclude_those_shown_elsewhere() -> None:
    verdict = AckVerdict(acked=9, lost=1, misplaced=2, foreign=4, excused=8)
    assert (verdict.wrong_except(), verdict.wrong_except("lost", "misplaced")) == (7, 4)


def test_only_the_first_samples_are_stored() -> None:
    verdict = TxnVerdict()
    for number in range(SAMPLES_MAX + 1):
        verdict.note(str(number))
    assert verdict.samples == [str(number) for number in range(SAMPLES_MAX)]
