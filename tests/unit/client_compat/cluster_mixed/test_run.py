"""The plan of a run, and the conditions for a good run."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from client_compat.cluster_mixed.faults import BASIC_FAULTS, CHAOS_FAULTS, CONCURRENT_FAULTS, Fault
from client_compat.cluster_mixed.run import MixedRun, findings, plan, rounds
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict


def test_every_broker_gets_every_fault(tmp_path: Path) -> None:
    for count in (3, 4, 5):
        brokers = Cluster(tmp_path, [Kind.OTTLA] * count, version="none", controller_version="none").brokers
        done = {(broker.node_id, fault) for broker, fault in itertools.islice(plan(brokers, BASIC_FAULTS), count * len(BASIC_FAULTS))}
        assert len(done) == count * len(BASIC_FAULTS)


def test_brokers_take_turns_also_with_one_kind_of_fault(tmp_path: Path) -> None:
    brokers = Cluster(tmp_path, [Kind.OTTLA] * 3).brokers
    assert [broker.node_id for broker, _ in itertools.islice(plan(brokers, [Fault.TAKEOVER]), 6)] == [1, 2, 3, 1, 2, 3]


def test_every_node_gets_every_fault_that_is_for_it(tmp_path: Path) -> None:
    nodes = Cluster(tmp_path, ALL_OTTLA, controller_kind=Kind.OTTLA).nodes
    done = {(node.node_id, fault) for node, fault in itertools.islice(plan(nodes, CHAOS_FAULTS), 60)}
    assert done == {(node.node_id, fault) for node in nodes for fault in CHAOS_FAULTS if node.node_id < 100 or fault != Fault.CUT_OFF}


def test_two_different_nodes_may_fail_at_once(tmp_path: Path) -> None:
    nodes = Cluster(tmp_path, ALL_OTTLA, controller_kind=Kind.OTTLA).nodes
    planned = list(itertools.islice(plan(nodes, CHAOS_FAULTS), 300))
    done = list(rounds(iter(planned), random.Random(1), pairs=True))
    assert sorted(planned, key=str) == sorted((one for at_once in done for one in at_once), key=str)
    pairs = [at_once for at_once in done if len(at_once) > 1]
    assert len(pairs) > 50
    assert all(first[0] is not second[0] and {first[1], second[1]} <= CONCURRENT_FAULTS for first, second in pairs)
    assert all(len(at_once) == 1 for at_once in rounds(iter(planned), random.Random(1), pairs=False))


def test_run_without_judged_records_is_not_good() -> None:
    assert not MixedRun().good


def audited(path: str, *severities: Severity) -> DirectoryVerdict:
    evidence = {"group_id": "g", "committed_offset": 3, "previous_offset": 7}
    file = f"{path}/0.log"
    samples = [Finding("a-rule", severity, "went back", "__consumer_offsets", 0, 9, file, 64, evidence) for severity in severities]
    return DirectoryVerdict(path, rules={"a-rule": RuleResult(True, samples=samples)})


def test_audit_finding_is_reported_once_with_all_its_brokers() -> None:
    verdict = Verdict([audited("run/broker-1", Severity.WARNING, Severity.INFO), audited("run/broker-2", Severity.WARNING)])
    what = "warning, a-rule: went back at __consumer_offsets-0@9 (group_id g, committed_offset 3, previous_offset 7)"
    assert findings(verdict) == [f"{what}: broker-1, broker-2"]
    assert findings(Verdict([audited("run/broker-1")])) == []
