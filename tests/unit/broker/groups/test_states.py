from __future__ import annotations

import pytest

from ottla.broker.groups.states import VALID_TRANSITIONS, ClassicState


@pytest.mark.parametrize("state", ClassicState)
def test_every_state_can_become_dead_and_dead_is_final(state: ClassicState) -> None:
    assert (ClassicState.DEAD in VALID_TRANSITIONS[state]) == (state is not ClassicState.DEAD)


def test_a_group_becomes_stable_only_by_completing_a_rebalance() -> None:
    assert [state for state in ClassicState if ClassicState.STABLE in VALID_TRANSITIONS[state]] == [ClassicState.COMPLETING_REBALANCE]
