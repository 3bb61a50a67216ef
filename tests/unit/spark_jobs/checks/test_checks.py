"""The audit's rules as data: the properties that a verdict's readers and the audit's query rely on. Findings: corpus/test_corpus.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs import checks
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import Rule


def test_every_rule_has_a_file_of_its_name() -> None:
    files = {path.stem.replace("_", "-") for path in Path(checks.__file__).parent.glob("*.py")} - {"--init--", "rule"}
    assert sorted(rule.name for rule in RULES) == sorted(files)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_it_proves_what_to_do_and_where_it_is_blind(rule: Rule) -> None:
    assert rule.proves.endswith(".")
    assert rule.limits.endswith(".")
    assert rule.advice.endswith(".")
    assert "  " not in rule.proves + rule.limits + rule.advice


def test_no_two_rules_share_a_title() -> None:
    assert len({rule.title for rule in RULES}) == len(RULES)


def test_rules_of_transactions_are_not_run_where_there_are_none() -> None:
    assert {rule.name for rule in RULES if rule.needs_transactions} == {
        "hanging-transaction", "torn-transaction", "zombie-batch", "mixed-transaction", "markers", "transaction-epochs",
    }  # fmt: skip
