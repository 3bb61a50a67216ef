"""What a run of a campaign says of the audit."""

from __future__ import annotations

from client_compat.cluster_mixed.report import findings
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict


def directory(path: str, *severities: Severity) -> DirectoryVerdict:
    evidence = {"group_id": "g", "committed_offset": 3, "previous_offset": 7}
    file = f"{path}/0.log"
    samples = [Finding("a-rule", severity, "went back", "__consumer_offsets", 0, 9, file, 64, evidence) for severity in severities]
    return DirectoryVerdict(path, rules={"a-rule": RuleResult(True, samples=samples)})


def test_what_the_audit_found_is_told_once_for_all_brokers_that_have_it() -> None:
    verdict = Verdict([directory("run/broker-1", Severity.WARNING, Severity.INFO), directory("run/broker-2", Severity.WARNING)])
    what = "warning, a-rule: went back at __consumer_offsets-0@9 (group_id g, committed_offset 3, previous_offset 7)"
    assert findings(verdict) == [f"{what}: broker-1, broker-2"]
    assert findings(Verdict([directory("run/broker-1")])) == []
