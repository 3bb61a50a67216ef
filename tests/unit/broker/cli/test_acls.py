"""`ottla acls` against a running broker, and on a stopped broker's directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ottla.broker.cli.acls import app
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from tests.support.running_broker import RunningBroker

READER = ("add", "--allow", "User:ann", "--operation", "READ", "--topic", "orders")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with RunningBroker(tmp_path / "data", settings) as broker:
        yield broker


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_acls_are_added_listed_and_removed(broker: RunningBroker) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    assert run(*READER, *at).exit_code == 0
    assert run("add", "--deny", "User:*", "--operation", "write", "--topic", "ord", "--prefixed", "--host", "10.0.0.9", *at).exit_code == 0
    listed = json.loads(run("list", "--topic", "orders", "--json", *at).stdout)
    assert [(acl["name"], acl["pattern"], acl["principal"], acl["host"], acl["operation"], acl["permission"]) for acl in listed] == [
        ("ord", "PREFIXED", "User:*", "10.0.0.9", "WRITE", "DENY"),
        ("orders", "LITERAL", "User:ann", "*", "READ", "ALLOW"),
    ]
    assert run("remove", "--topic", "ord", "--prefixed", "--yes", *at).exit_code == 0
    assert len(json.loads(run("list", "--json", *at).stdout)) == 1
    run("add", "--deny", "User:ann", "--operation", "READ", "--topic", "orders", "--host", "::1", *at)  # however an address is written
    assert run("explain", "--principal", "User:ann", "--operation", "READ", "--topic", "orders", "--host", "0::1", *at).exit_code == 1
    assert {acl["host"] for acl in json.loads(run("list", "--json", *at).stdout)} == {"*", "0:0:0:0:0:0:0:1"}


@pytest.mark.parametrize("at_rest", [False, True])
def test_explain_names_the_deciding_acl(broker: RunningBroker, at_rest: bool) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    assert run(*READER, *at).exit_code == 0
    where = ("--data-dir", str(broker.data_dir)) if at_rest else at
    arguments = ("explain", "--principal", "User:ann", "--topic", "orders", *where)
    allowed = run(*arguments, "--operation", "DESCRIBE")
    assert allowed.exit_code == 0
    assert "allowed: User:ann DESCRIBE Topic orders from 127.0.0.1\nrule: StandardAcl[" in allowed.stdout
    denied = run(*arguments, "--operation", "WRITE")
    assert (denied.exit_code, "rule: no ACL allows it" in denied.stdout) == (1, True)
    assert run(*arguments, "--operation", "WRITE", "--super-users", "User:ann").exit_code == 0
    other = run("explain", "--principal", "User:ann", "--operation", "READ", "--group", "g", *where)
    assert (other.exit_code, "rule: no ACL applies to the resource" in other.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("explain", "--principal", "User:ann", "--operation", "READ"), "name a resource"),
        (("explain", "--principal", "User:ann", "--operation", "READ", "--topic", "a", "--cluster"), "name one resource"),
        (("explain", "--principal", "User:ann", "--operation", "EAT", "--topic", "a"), "is not an operation"),
        (("explain", "--principal", "User:ann", "--operation", "ANY", "--topic", "a"), "--operation ANY cannot be checked"),
        (("explain", "--principal", "ann", "--operation", "READ", "--topic", "a"), "'ann' is not a principal"),
        (("explain", "--principal", "User:ann", "--operation", "READ", "--topic", "a", "--super-users", "User:b;ann"), "'ann' is not a"),
        (("explain", "--principal", "User:ann", "--operation", "READ", "--topic", "a", "--host", "h.example"), "use an IP address"),
        (("add", "--operation", "READ", "--topic", "a"), "--allow or --deny"),
    ],
)
def test_missing_or_unknown_acl_options_are_reported(arguments: tuple[str, ...], problem: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, problem in result.output) == (2, True)


@pytest.mark.parametrize(("where", "problem"), [("--data-dir", "has no metadata log"), ("--bootstrap-server", "127.0.0.1:1")])
def test_explain_reports_an_unreadable_source_instead_of_a_denial(tmp_path: Path, where: str, problem: str) -> None:
    arguments = ("explain", "--principal", "User:ann", "--operation", "READ", "--topic", "a")
    result = run(*arguments, where, str(tmp_path) if where == "--data-dir" else "127.0.0.1:1")
    assert (result.exit_code, problem in result.output) == (2, True)
