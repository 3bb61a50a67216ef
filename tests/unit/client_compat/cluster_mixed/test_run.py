"""The plan of a run, and when a run is good."""

from __future__ import annotations

import itertools
from pathlib import Path

from client_compat.cluster_mixed.faults import EVERY, Fault
from client_compat.cluster_mixed.run import MixedRun, plan
from client_compat.kafka.cluster import Cluster, Kind


def test_every_broker_gets_every_fault(tmp_path: Path) -> None:
    for count in (3, 4, 5):
        brokers = Cluster(tmp_path, [Kind.OTTLA] * count, version="none", controller_version="none").brokers
        done = {(broker.node_id, fault) for broker, fault in itertools.islice(plan(brokers, EVERY), count * len(EVERY))}
        assert len(done) == count * len(EVERY)


def test_brokers_take_turns_also_with_one_kind_of_fault(tmp_path: Path) -> None:
    brokers = Cluster(tmp_path, [Kind.OTTLA] * 3).brokers
    assert [broker.node_id for broker, _ in itertools.islice(plan(brokers, [Fault.TAKEOVER]), 6)] == [1, 2, 3, 1, 2, 3]


def test_a_run_that_judged_nothing_is_not_good() -> None:
    assert not MixedRun().good
