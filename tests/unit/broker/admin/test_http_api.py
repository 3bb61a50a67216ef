"""The admin port over HTTP, used as a test in any language would."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest

from ottla.broker.admin.http_api import RuleIn
from ottla.broker.admin.server import admin_port
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.rules import FaultRule
from ottla.broker.testing import InProcessBroker

TOKEN = "a-token"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}


class Admin:
    """One broker's admin port."""

    def __init__(self, broker: InProcessBroker, port: int) -> None:
        self.broker, self.port = broker, port

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = SHOWN) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def read(self, path: str, headers: Mapping[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, None, dict(headers))
        status = connection.getresponse().status
        connection.close()
        return status


@contextmanager
def served(*, open_local: bool) -> Iterator[Admin]:
    moving = MovableClock()
    with InProcessBroker(clock=moving) as running:
        serving = admin_port(running.broker, running.script, moving, 0, token=TOKEN, open_local=open_local)
        yield Admin(running, running.call_async(serving.__aenter__()))
        running.call_async(serving.__aexit__(None, None, None))


@pytest.fixture
def admin() -> Iterator[Admin]:
    with served(open_local=False) as found:
        yield found


@pytest.fixture
def open_admin() -> Iterator[Admin]:
    with served(open_local=True) as found:
        yield found


def test_health_lists_the_listeners(admin: Admin) -> None:
    status, body = admin.ask("GET", "/health")
    assert (status, body["status"], body["listeners"]) == (200, "ok", [f"PLAINTEXT://127.0.0.1:{admin.broker.port}"])


def test_console_paths_are_404_without_the_console(admin: Admin) -> None:
    for path in ("/", "/console", "/console/topics"):
        assert admin.ask("GET", path)[0] == 404


def test_fault_rule_is_added_read_and_removed(admin: Admin) -> None:
    status, made = admin.ask("POST", "/faults", {"action": "error", "api": "Produce", "code": "NOT_LEADER_OR_FOLLOWER", "times": 2})
    assert (status, made["name"], made["code"], made["consumed"]) == (201, "error-1", "NOT_LEADER_OR_FOLLOWER", False)
    assert admin.ask("GET", "/faults/error-1") == (200, made)
    assert admin.ask("DELETE", "/faults/error-1") == (204, None)
    assert admin.ask("GET", "/faults") == (200, [])
    assert admin.ask("POST", "/faults", {"action": "drop-ack", "name": "app/late"})[0] == 201
    assert admin.ask("GET", "/faults/app/late")[1]["name"] == "app/late"
    assert admin.ask("DELETE", "/faults/app%2Flate") == (204, None)


def test_every_field_of_a_fault_rule_is_accepted(admin: Admin) -> None:
    given = {
        "action": "redeliver",
        "api": "OFFSET_FETCH",
        "topic": "t",
        "partition": 0,
        "connection": 1,
        "after": 1,
        "times": 2,
        "share": 0.5,
    }
    rest = {"seed": 7, "records": 3, "client_id": "c", "group": "g", "name": "n"}
    status, made = admin.ask("POST", "/faults", given | rest)
    assert status == 201
    assert made == given | rest | {"seen": 0, "hits": 0, "consumed": False}
    assert {each.name for each in fields(FaultRule) if each.init} == set(RuleIn.model_fields)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "lose"}, 422),
        ({"action": "drop-ack", "apis": "Produce"}, 422),
        ({"action": "drop-ack", "times": "many"}, 422),
        ({}, 422),
        ({"action": "error", "api": "Produce"}, 422),
        ({"action": "swallow", "name": "there"}, 409),
    ],
)
def test_invalid_fault_rule_is_rejected_and_changes_nothing(admin: Admin, body: dict[str, Any], status: int) -> None:
    admin.ask("POST", "/faults", {"action": "swallow", "name": "there", "client_id": "nobody"})
    assert admin.ask("POST", "/faults", body)[0] == status
    assert [rule["name"] for rule in admin.ask("GET", "/faults")[1]] == ["there"]


def test_unknown_rule_names_are_404(admin: Admin) -> None:
    for method, path in (("GET", "/faults/x"), ("DELETE", "/faults/x"), ("POST", "/held/release?rule=x")):
        assert admin.ask(method, path)[0] == 404


def test_held_steps_are_listed_and_released(admin: Admin) -> None:
    rule = admin.broker.faults.add("pause:step=marked,name=p")
    admin.broker.call(lambda _: admin.broker.script.hold(rule, "a step", lambda: None))
    assert admin.ask("GET", "/held") == (200, [{"rule": "p", "what": "a step"}])
    assert admin.ask("POST", "/held/release?rule=p") == (200, {"released": 1})
    assert admin.ask("GET", "/held") == (200, [])


def test_clock_can_only_be_advanced(admin: Admin) -> None:
    assert admin.ask("POST", "/clock/advance", {"ms": 5_000})[1]["ahead_ms"] == 5_000
    assert admin.ask("POST", "/clock/advance", {"ms": -1})[0] == 422
    assert admin.ask("POST", "/clock/advance", {"ms": 10**19})[0] == 422
    assert admin.ask("GET", "/clock")[1]["ahead_ms"] == 5_000


def test_openapi_document_lists_every_path(admin: Admin) -> None:
    status, described = admin.ask("GET", "/openapi.json")
    assert status == 200
    assert {"/faults", "/faults/{name}", "/held", "/held/release", "/clock", "/clock/advance", "/health"} <= set(described["paths"])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/faults", {"action": "drop-ack"}),
        ("DELETE", "/faults", None),
        ("POST", "/held/release", None),
        ("POST", "/clock/advance", {"ms": 1}),
        ("POST", "/nothing/that/is/there", None),
    ],
)
def test_every_changing_request_needs_the_token(admin: Admin, method: str, path: str, body: Any) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": f"Bearer {TOKEN}x"}):
        status, answer = admin.ask(method, path, body, headers)
        assert (status, "token" in answer["detail"]) == (401, True), headers
    assert admin.ask("GET", "/faults") == (200, [])
    assert admin.ask("GET", "/clock")[1]["ahead_ms"] == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9644", "127.0.0.1:1", "[::1]:9644"])
def test_only_health_is_readable_locally_without_the_token_by_default(admin: Admin, host: str) -> None:
    """A reverse proxy on this machine connects from 127.0.0.1, and nginx sends the proxied address as Host, so neither proves a local
    user."""
    assert admin.read("/health", {"Host": host}) == 200
    for path in ("/metrics", "/faults", "/openapi.json", "/clock", "/held", "/health/", "//health"):
        assert admin.read(path, {"Host": host}) == 401, path


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9644", "127.0.0.1:1", "[::1]:9644"])
def test_open_admin_port_is_readable_locally_under_loopback_names(open_admin: Admin, host: str) -> None:
    for path in ("/health", "/metrics", "/faults", "/openapi.json"):
        assert open_admin.read(path, {"Host": host}) == 200, path
    assert open_admin.ask("POST", "/clock/advance", {"ms": 1}, {"Host": host})[0] == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:9644",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
        "localhost.evil.example",
        "[127.0.0.1]x.example",
        "[::1]x.example:9644",
        "[127.0.0.1]",
        "127.0.0.1:9644:x",
    ],
)
def test_request_with_a_foreign_host_header_needs_the_token(open_admin: Admin, host: str) -> None:
    assert open_admin.read("/health", {"Host": host}) == 401
    assert open_admin.read("/health", {"Host": host, **SHOWN}) == 200
