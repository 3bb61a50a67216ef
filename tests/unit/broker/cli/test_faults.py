"""`ottla faults` and `ottla clock` against the admin port of a broker in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ottla.broker.admin.server import admin_port
from ottla.broker.cli.faults import app, clock, duration_ms
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from tests.support.topic_calls import produce


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessBroker]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    moving = MovableClock()
    with InProcessBroker(clock=moving) as running:
        serving = admin_port(running.broker, running.script, moving, 0, token="a-token")
        running.admin = f"127.0.0.1:{running.call_async(serving.__aenter__())}"  # type: ignore[attr-defined] # where `run` finds it
        yield running
        running.call_async(serving.__aexit__(None, None, None))


def run(broker: InProcessBroker, *arguments: str) -> Result:
    command = clock if arguments[0] in {"show", "advance"} else app
    return CliRunner().invoke(command, [*arguments, "--admin", broker.admin])  # type: ignore[attr-defined] # set by the fixture


def test_fault_command_adds_checks_lists_and_removes_a_rule(broker: InProcessBroker) -> None:
    broker.topics.create("t")
    assert run(broker, "add", "drop-ack:api=Produce,topic=t,times=1,name=lost").stdout == "lost\n"
    assert run(broker, "check").exit_code == 1
    with Client("127.0.0.1", broker.port) as client, pytest.raises(ConnectionError):
        produce(client, "t", b"x")
    assert run(broker, "check").exit_code == 0
    (rule,) = json.loads(run(broker, "list", "--json").stdout)
    assert (rule["topic"], rule["times"], rule["hits"], rule["consumed"]) == ("t", 1, 1, True)
    assert "topic=t" in run(broker, "list").stdout
    assert run(broker, "remove", "lost").exit_code == 0
    assert json.loads(run(broker, "list", "--json").stdout) == []


def test_fault_rule_with_every_kind_of_field_reaches_the_broker(broker: InProcessBroker) -> None:
    assert run(broker, "add", "redeliver:group=g,records=5,share=0.5,seed=3,after=1,connection=9,name=back").stdout == "back\n"
    (rule,) = json.loads(run(broker, "list", "--json").stdout)
    assert (rule["records"], rule["share"], rule["connection"]) == (5, 0.5, 9)


def test_admin_port_is_reached_without_the_http_proxy(broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert run(broker, "list", "--json").stdout == "[]\n"


def test_held_requests_are_listed_and_released(broker: InProcessBroker) -> None:
    released: list[str] = []
    rule = broker.faults.add("hold-request:name=h")
    broker.call(lambda _: broker.script.hold(rule, "a request", lambda: released.append("it")))
    assert json.loads(run(broker, "held", "--wait", "5", "--json").stdout) == [{"rule": "h", "what": "a request"}]
    assert run(broker, "release", "h").stdout == "1\n"
    assert released == ["it"]
    assert run(broker, "held", "--wait", "0").exit_code == 1


def test_reset_removes_all_rules(broker: InProcessBroker) -> None:
    for _ in range(2):
        run(broker, "add", "swallow")
    assert run(broker, "reset").exit_code == 0
    assert broker.faults.rules == []


def test_mistake_prints_one_line_with_advice(broker: InProcessBroker) -> None:
    wrong = run(broker, "add", "lose")
    assert (wrong.exit_code, "use one of drop-request, drop-ack" in wrong.stderr) == (2, True)
    unknown = run(broker, "remove", "nobody")
    assert (unknown.exit_code, "there is no fault 'nobody'" in unknown.stderr) == (1, True)
    run(broker, "add", "swallow:name=s")
    assert "there is a fault 's' already" in run(broker, "add", "swallow:name=s").stderr
    nobody = CliRunner().invoke(app, ["list", "--admin", "127.0.0.1:1"])
    assert (nobody.exit_code, "start the broker or gateway with --admin-port" in nobody.stderr) == (1, True)


def test_every_action_is_listed() -> None:
    assert "disk-full" in CliRunner().invoke(app, ["actions"]).stdout.split()


def test_advance_moves_the_brokers_clock(broker: InProcessBroker) -> None:
    before = broker.clock.now_ms()
    assert run(broker, "advance", "2h").stdout == "7200000\n"
    assert broker.clock.now_ms() - before >= 7_200_000
    assert json.loads(run(broker, "show", "--json").stdout)["ahead_ms"] == 7_200_000


@pytest.mark.parametrize(("text", "ms"), [("250ms", 250), ("1.5s", 1_500), ("10m", 600_000), ("24h", 86_400_000), ("8d", 691_200_000)])
def test_a_duration_is_parsed_to_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_token_comes_from_the_environment_or_the_users_token_file(
    broker: InProcessBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (tmp_path / "ottla").iterdir()
    assert (file.read_text(), file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == ("a-token", 0o600, 0o700)
    file.rename(tmp_path / "elsewhere")
    refused = run(broker, "reset")
    assert (refused.exit_code, "OTTLA_ADMIN_TOKEN" in refused.stderr) == (1, True)
    monkeypatch.setenv("OTTLA_ADMIN_TOKEN", "wrong")
    assert run(broker, "reset").exit_code == 1
    monkeypatch.setenv("OTTLA_ADMIN_TOKEN", "a-token")
    assert run(broker, "reset").exit_code == 0
    (tmp_path / "elsewhere").rename(file)
