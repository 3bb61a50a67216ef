"""The audit's rules as data: the properties that a verdict's readers and the audit's query rely on. Findings: corpus/test_corpus.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs import checks
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import Rule


def test_every_rule_is_in_a_file_of_its_name() -> None:
    files = {path.stem.replace("_", "-") for path in Path(checks.__file__).parent.glob("*.py")} - {"--init--", "rule"}
    assert sorted(rule.name for rule in RULES) == sorted(files)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_texts_are_complete_sentences(rule: Rule) -> None:
    assert rule.proves.endswith(".")
    assert rule.limits.endswith(".")
    assert rule.advice.endswith(".")
    assert "  " not in rule.proves + rule.limits + rule.advice


def test_rule_titles_are_unique() -> None:
    assert len({rule.title for rule in RULES}) == len(RULES)


def test_transaction_rules_need_transactions() -> None:
    assert {rule.name for rule in RULES if rule.needs_transactions} == {
        "hanging-transaction", "torn-transaction", "zombie-batch", "mixed-transaction", "markers", "transaction-epochs",
    }  # fmt: skip
