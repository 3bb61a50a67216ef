"""Each rule is judged in the first step that has the rows it needs."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import Rule, Scope
from ottla.spark_jobs.steps import SHUFFLED, AvailableViews

MADE_ACROSS = {"open_transactions", "complete_states", "topic_ids"}


def tables_of(sql: str) -> set[str]:
    parsed = sqlglot.parse_one(sql, read="spark")
    return {table.name for table in parsed.find_all(exp.Table)} - {each.alias for each in parsed.find_all(exp.CTE)}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope is not Scope.PARTITION], ids=lambda rule: rule.name)
def test_rule_across_partitions_reads_only_tables_passed_on(rule: Rule) -> None:
    assert tables_of(rule.sql) <= SHUFFLED.keys() | MADE_ACROSS


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope is Scope.PARTITION], ids=lambda rule: rule.name)
def test_rule_within_a_partition_reads_no_tables_of_others(rule: Rule) -> None:
    assert tables_of(rule.sql).isdisjoint(MADE_ACROSS | {"states", "group_commits", "newest_epochs"} - {rule.view})


def test_rule_without_its_view_or_without_transactions_is_skipped() -> None:
    by_name = {rule.name: rule for rule in RULES}
    available = AvailableViews({"batches", "transactions"})
    assert [available.allows(by_name[name]) for name in ("offsets", "torn-transaction", "producer-snapshots")] == [
        True,
        False,
        False,
    ]
    available.transactional = True
    assert available.allows(by_name["torn-transaction"])
