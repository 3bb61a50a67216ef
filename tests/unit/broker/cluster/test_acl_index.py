"""Matching of ACLs and implied permissions. Kafka's own decisions: tests/property/test_acl_decisions.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.acl_index import AccessRequest, AclIndex, text_of
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
    return AclIndex(acls).judge(AccessRequest(operation=operation, name=name, **(usual | fields))).allowed


def test_without_acls_nothing_is_allowed_and_no_resource_has_acls() -> None:
    verdict = AclIndex([]).judge(AccessRequest("User:ann", "10.0.0.1", Operation.READ, Resource.TOPIC, "orders"))
    assert (verdict.allowed, verdict.acl, verdict.covered) == (False, None, False)


def test_another_principals_acl_counts_for_the_resource_and_allows_nothing() -> None:
    verdict = AclIndex([acl(principal="User:bob")]).judge(AccessRequest("User:ann", "10.0.0.1", Operation.READ, Resource.TOPIC, "orders"))
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
def test_an_acl_matches_literally_by_prefix_or_all_names(name: str, pattern: Pattern, is_meant: bool) -> None:
    assert may([acl(name, pattern_type=pattern)]) is is_meant


def test_names_that_sort_before_the_wildcard_match_normally() -> None:
    acls = [acl("!a"), acl("!", pattern_type=Pattern.PREFIXED, operation=Operation.WRITE)]
    assert may(acls, "!a")
    assert not may(acls, "!b")
    assert may(acls, "!b", Operation.WRITE)


def test_the_wildcard_principal_and_host_match_all() -> None:
    assert may([acl(principal="User:*")])
    assert not may([acl(principal="Group:*")])
    assert may([acl(host="10.0.0.1")])
    assert not may([acl(host="10.0.0.2")])


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL])
def test_an_operation_that_implies_describe_does_not_deny_it_when_denied(operation: Operation) -> None:
    assert may([acl(operation=operation)], operation=Operation.DESCRIBE)
    others = [acl(operation=Operation.DESCRIBE), acl(operation=operation, permission_type=Permission.DENY)]
    assert may(others, operation=Operation.DESCRIBE) is (operation is not Operation.ALL)


def test_alter_configs_implies_only_describe_configs() -> None:
    assert may([acl(operation=Operation.ALTER_CONFIGS)], operation=Operation.DESCRIBE_CONFIGS)
    assert not may([acl(operation=Operation.ALTER_CONFIGS)], operation=Operation.DESCRIBE)
    assert not may([acl(operation=Operation.CREATE)], operation=Operation.DESCRIBE)


def test_a_deny_overrides_every_allow() -> None:
    allowing = [acl(operation=Operation.ALL), acl("*", operation=Operation.ALL), acl("o", pattern_type=Pattern.PREFIXED)]
    assert may(allowing)
    assert not may([*allowing, acl("ord", pattern_type=Pattern.PREFIXED, principal="User:*", permission_type=Permission.DENY)])


def test_an_allow_on_any_resource_of_the_type_suffices_unless_all_are_denied() -> None:
    def somewhere(*acls: AccessControlEntryRecord) -> bool:
        return AclIndex(acls).any_of_type("User:ann", "10.0.0.1", Operation.WRITE, Resource.TOPIC)

    write = acl(operation=Operation.WRITE)
    assert not somewhere()
    assert not somewhere(acl())
    assert somewhere(write)
    assert not somewhere(write, acl("*", operation=Operation.ALL, permission_type=Permission.DENY))
    assert not somewhere(write, acl("ord", pattern_type=Pattern.PREFIXED, operation=Operation.WRITE, permission_type=Permission.DENY))


def test_only_acls_of_matching_names_are_examined() -> None:
    many = [acl(f"topic-{number}", principal=f"User:u{number}") for number in range(20_000)]
    index = AclIndex([*many, acl("topic-77", operation=Operation.WRITE)])
    question = AccessRequest("User:ann", "10.0.0.1", Operation.WRITE, Resource.TOPIC, "topic-77")
    assert index.judge(question).allowed


def test_an_acls_text_is_kafkas() -> None:
    assert text_of(acl()) == (
        "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:ann, host=*, operation=READ, "
        "permissionType=ALLOW]"
    )


@pytest.mark.parametrize(
    ("host", "address", "is_meant"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.9.9.9/8", "10.1.2.3", True),
        ("10.1.2.3/32", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("0.0.0.0/0", "fe80::1", False),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db9:0:0:0:0:0:1", False),
        ("10.0.0.0/255.0.0.0", "10.1.2.3", False),
        ("10.0.0.0/33", "10.1.2.3", False),
        ("10.0.0.0/8", "no address", False),
    ],
)
def test_an_address_range_matches_its_addresses_where_ranges_are_known(host: str, address: str, is_meant: bool) -> None:
    acls = [acl(host=host)]
    question = AccessRequest("User:ann", address, Operation.READ, Resource.TOPIC, "orders")
    assert AclIndex(acls, ranges=True).judge(question).allowed is is_meant
    assert AclIndex(acls, ranges=True).any_of_type("User:ann", address, Operation.READ, Resource.TOPIC) is is_meant
    assert not AclIndex(acls).judge(question).allowed


def test_removed_acl_has_no_effect_and_others_keep_theirs() -> None:
    ours = [acl(), acl("ord", pattern_type=Pattern.PREFIXED), acl("*"), acl(host="10.0.0.0/8", operation=Operation.WRITE)]
    others = [acl("ord", pattern_type=Pattern.PREFIXED, principal="User:bob"), acl("orders", operation=Operation.ALTER)]
    index = AclIndex([*ours, *others], ranges=True)
    for each in ours:
        index.remove(each)
    left = AclIndex(others, ranges=True)
    for operation in (Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DESCRIBE):
        for name in ("orders", "ordinary", "other"):
            for principal in ("User:ann", "User:bob"):
                question = AccessRequest(principal, "10.0.0.1", operation, Resource.TOPIC, name)
                assert index.judge(question) == left.judge(question)
                assert index.any_of_type(*question[:4]) == left.any_of_type(*question[:4])
    for each in others:
        index.remove(each)
    assert not list(index.about(Resource.TOPIC, "orders"))
    index.add(ours[0])
    assert index.judge(AccessRequest("User:ann", "10.0.0.1", Operation.READ, Resource.TOPIC, "orders")).allowed
