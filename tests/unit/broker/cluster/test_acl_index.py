"""Rules: what an ACL is about, what it implies, which of several decides. Kafka answers in tests/property/test_acl_decisions.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.acl_index import AclIndex, Question, text_of
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import Operation, Pattern, Permission, Resource


def acl(name: str = "orders", **fields: Any) -> AccessControlEntryRecord:
    usual = {
        "id": bytes(16),
        "resource_type": Resource.TOPIC,
        "pattern_type": Pattern.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AccessControlEntryRecord(resource_name=name, **(usual | fields))


def may(acls: list[AccessControlEntryRecord], name: str = "orders", operation: Operation = Operation.READ, **fields: Any) -> bool:
    usual = {"principal": "User:ann", "host": "10.0.0.1", "resource": Resource.TOPIC}
    return AclIndex(acls).judge(Question(operation=operation, name=name, **(usual | fields))).allowed


def test_without_an_acl_nothing_is_allowed_and_nothing_is_covered() -> None:
    verdict = AclIndex([]).judge(Question("User:ann", "10.0.0.1", Operation.READ, Resource.TOPIC, "orders"))
    assert (verdict.allowed, verdict.acl, verdict.covered) == (False, None, False)


def test_an_acl_of_somebody_else_covers_a_resource_and_allows_nothing() -> None:
    verdict = AclIndex([acl(principal="User:bob")]).judge(Question("User:ann", "10.0.0.1", Operation.READ, Resource.TOPIC, "orders"))
    assert (verdict.allowed, verdict.covered) == (False, True)


@pytest.mark.parametrize(
    ("name", "pattern", "is_meant"),
    [
        ("orders", Pattern.LITERAL, True),
        ("order", Pattern.LITERAL, False),
        ("order", Pattern.PREFIXED, True),
        ("orders-2", Pattern.PREFIXED, False),
        ("Orders", Pattern.LITERAL, False),
        ("*", Pattern.LITERAL, True),
        ("*", Pattern.PREFIXED, False),
    ],
)
def test_a_name_is_meant_literally_as_a_beginning_or_for_all(name: str, pattern: Pattern, is_meant: bool) -> None:
    assert may([acl(name, pattern_type=pattern)]) is is_meant


def test_names_that_begin_before_the_star_are_judged_as_any_other() -> None:
    acls = [acl("!a"), acl("!", pattern_type=Pattern.PREFIXED, operation=Operation.WRITE)]
    assert may(acls, "!a")
    assert not may(acls, "!b")
    assert may(acls, "!b", Operation.WRITE)


def test_everybody_and_every_host_are_stars() -> None:
    assert may([acl(principal="User:*")])
    assert not may([acl(principal="Group:*")])
    assert may([acl(host="10.0.0.1")])
    assert not may([acl(host="10.0.0.2")])


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL])
def test_who_may_do_much_may_describe_and_who_may_not_may_describe_nevertheless(operation: Operation) -> None:
    assert may([acl(operation=operation)], operation=Operation.DESCRIBE)
    others = [acl(operation=Operation.DESCRIBE), acl(operation=operation, permission_type=Permission.DENY)]
    assert may(others, operation=Operation.DESCRIBE) is (operation is not Operation.ALL)


def test_altering_settings_implies_describing_them_and_nothing_else() -> None:
    assert may([acl(operation=Operation.ALTER_CONFIGS)], operation=Operation.DESCRIBE_CONFIGS)
    assert not may([acl(operation=Operation.ALTER_CONFIGS)], operation=Operation.DESCRIBE)
    assert not may([acl(operation=Operation.CREATE)], operation=Operation.DESCRIBE)


def test_one_denial_is_stronger_than_all_that_allow() -> None:
    allowing = [acl(operation=Operation.ALL), acl("*", operation=Operation.ALL), acl("o", pattern_type=Pattern.PREFIXED)]
    assert may(allowing)
    assert not may([*allowing, acl("ord", pattern_type=Pattern.PREFIXED, principal="User:*", permission_type=Permission.DENY)])


def test_any_resource_of_a_type_is_enough_unless_all_are_denied() -> None:
    def somewhere(*acls: AccessControlEntryRecord) -> bool:
        return AclIndex(acls).any_of_type("User:ann", "10.0.0.1", Operation.WRITE, Resource.TOPIC)

    write = acl(operation=Operation.WRITE)
    assert not somewhere()
    assert not somewhere(acl())
    assert somewhere(write)
    assert not somewhere(write, acl("*", operation=Operation.ALL, permission_type=Permission.DENY))
    assert not somewhere(write, acl("ord", pattern_type=Pattern.PREFIXED, operation=Operation.WRITE, permission_type=Permission.DENY))


def test_among_thousands_of_acls_only_those_of_the_name_are_looked_at() -> None:
    many = [acl(f"topic-{number}", principal=f"User:u{number}") for number in range(20_000)]
    index = AclIndex([*many, acl("topic-77", operation=Operation.WRITE)])
    question = Question("User:ann", "10.0.0.1", Operation.WRITE, Resource.TOPIC, "topic-77")
    assert index.judge(question).allowed


def test_an_acl_is_told_as_kafka_tells_it() -> None:
    assert text_of(acl()) == (
        "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:ann, host=*, operation=READ, "
        "permissionType=ALLOW]"
    )
