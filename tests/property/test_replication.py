"""Through any losses, delays and crashes, committed records are kept, and the replicas of a partition converge."""

from __future__ import annotations

import pytest

from tests.support.replicated_partition import NODES, ReplicatedPartition


@pytest.mark.parametrize("seed", range(60))
def test_committed_records_survive_every_clean_election_and_all_logs_converge(seed: int) -> None:
    partition = ReplicatedPartition(seed)
    for _ in range(600):
        partition.step()
        partition.check()
    partition.settle()
    state, written = partition.controller.state, partition.logs[partition.controller.state.leader].entries
    assert sorted(state.isr) == sorted(NODES)
    assert all(log.entries == written for log in partition.logs.values())
    assert partition.committed == written
