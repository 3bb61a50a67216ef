from __future__ import annotations

import logging
import tracemalloc
from dataclasses import dataclass, field

import pytest

from ottla.broker.api.authorizer import AUDIT, Authorizer, ReadOnlyAuthorizer, java_host
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core import limits
from ottla.broker.core.acl import SUPPORTED, Operation, Pattern, Permission, Resource, bits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.principal import Principal
from ottla.protocol.api_keys import ApiKey

ANN = Principal("User", "ann")


@dataclass
class Somebody:
    principal: Principal = ANN
    host: str = "10.0.0.9"


@dataclass
class Request:
    peer: Somebody = field(default_factory=Somebody)
    api_key: int = ApiKey.LIST_OFFSETS


def acl(operation: Operation, permission: Permission = Permission.ALLOW, name: str = "orders") -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        bytes([operation, permission] * 8), Resource.TOPIC, name, Pattern.LITERAL, "User:ann", "*", operation, permission
    )


class Harness:
    """An authorizer whose ACLs the test changes."""

    def __init__(self, *acls: AccessControlEntryRecord, super_users: tuple[str, ...] = (), is_open: bool = False) -> None:
        self.clock = VirtualClock()
        self.rule(*acls)
        self.authorizer = Authorizer(super_users, is_open, lambda: self._acls, self.clock)

    def rule(self, *acls: AccessControlEntryRecord) -> None:
        self._acls = {one.id: one for one in acls}

    def may(self, operation: Operation = Operation.READ, name: str = "orders", *, quietly: bool = False, count: int = 1) -> bool:
        return self.authorizer.allowed(Request(), operation, Resource.TOPIC, name, quietly=quietly, count=count)


@pytest.mark.parametrize("super_users", [(), ("User:ann",)])
def test_a_read_only_node_authorizes_reads_alone(super_users: tuple[str, ...]) -> None:
    authorizer = ReadOnlyAuthorizer(super_users, True, dict, VirtualClock())
    allowed = {each for each in SUPPORTED[Resource.TOPIC] if authorizer.allowed(Request(), each, Resource.TOPIC, "orders")}
    assert allowed == {Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
    assert not authorizer.allowed_somewhere(Request(), Operation.WRITE, Resource.TOPIC)
    assert authorizer.allowed_somewhere(Request(), Operation.READ, Resource.TOPIC)
    assert not authorizer.is_super_user(Somebody())


def test_super_users_are_authorized_against_acls() -> None:
    assert Harness(acl(Operation.ALL, Permission.DENY), super_users=("User:ann",)).may()
    assert not Harness(super_users=("User:Ann",)).may()


def test_an_acl_counts_while_it_is_in_the_newest_metadata_also_as_another_object_with_its_id() -> None:
    harness = Harness(acl(Operation.READ), acl(Operation.WRITE))
    assert harness.may()
    harness.rule(acl(Operation.READ), acl(Operation.DELETE))
    assert [harness.may(each) for each in (Operation.READ, Operation.WRITE, Operation.DELETE)] == [True, False, True]
    harness.rule(acl(Operation.READ, name="others"))
    assert (harness.may(), harness.may(name="others")) == (False, True)
    harness.rule()
    assert not harness.may(name="others")


def test_decisions_on_names_longer_than_a_topics_are_not_cached() -> None:
    """A client without permissions names different resources of 32 KiB each: when they were cached, 20,000 decisions took 650 MiB."""
    harness = Harness()
    harness.may(name="orders")
    tracemalloc.start()
    try:
        for number in range(1_000):
            assert not harness.may(name=f"{number:05}" + "x" * 32_000, quietly=True)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_with_allow_everyone_an_acl_closes_only_its_own_resource() -> None:
    harness = Harness(acl(Operation.WRITE), is_open=True)
    assert harness.may(name="others")
    assert not harness.may()


def test_changed_acls_apply_to_the_next_check() -> None:
    harness = Harness()
    assert not harness.may()
    harness.rule(acl(Operation.READ))
    assert harness.may()
    harness.rule()
    assert not harness.may()


def test_authorized_operations_are_bits_and_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT)
    harness = Harness(acl(Operation.READ), acl(Operation.ALTER_CONFIGS))
    expected = bits([Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS])
    assert harness.authorizer.operations(Request(), Resource.TOPIC, "orders") == expected
    assert Harness(super_users=("User:ann",)).authorizer.operations(Request(), Resource.TOPIC, "t") == bits(SUPPORTED[Resource.TOPIC])
    assert not harness.may(Operation.WRITE, quietly=True)
    assert caplog.messages == []


def test_a_denial_is_logged_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT)
    harness = Harness(acl(Operation.READ, Permission.DENY))
    harness.may(count=3)
    harness.may(name="others\nPrincipal = User:eve")
    head = "Principal = User:ann is Denied operation = READ from host = 10.0.0.9 on resource = Topic:LITERAL:"
    assert caplog.messages == [
        f"{head}orders for request = ListOffsets with resourceRefCount = 3 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, "
        "resourceName=orders, patternType=LITERAL, principal=User:ann, host=*, operation=READ, permissionType=DENY])",
        f"{head}'others\\nPrincipal = User:eve' for request = ListOffsets with resourceRefCount = 1 based on rule DefaultDeny",
    ]


def test_constant_denials_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT)
    harness = Harness()
    for number in range(10 * limits.DENIAL_LINES):
        harness.may(name=f"topic-{number}")
        harness.may(name="topic-0")
    assert len(caplog.messages) == limits.DENIAL_LINES
    harness.clock.advance(limits.DENIAL_LINES_WINDOW_MS)
    harness.may(name="topic-0")
    assert caplog.messages[-2:-1] == [f"Suppressed {19 * limits.DENIAL_LINES} denials in the previous 60 s"]
    assert "topic-0 " in caplog.messages[-1]


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.9", "10.0.0.9"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:10.0.0.9", "10.0.0.9"),
        ("b1", "b1"),
    ],
)
def test_an_address_is_written_as_in_java(host: str, written: str) -> None:
    assert java_host(host) == written
