from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.cli.health import first_listener, main
from ottla.broker.cli.security import connect
from ottla.broker.security.client_properties import as_lines
from ottla.broker.testing import InProcessBroker
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.support.running_broker import RunningBroker


def test_serving_broker_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunningBroker(tmp_path / "data") as running:
        assert main(["--broker", running.bootstrap]) == 0
    assert capsys.readouterr().out == f"{running.bootstrap} serves\n"


def test_health_check_reads_the_address_from_the_brokers_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningBroker(tmp_path / "data") as running:
        monkeypatch.setenv("OTTLA_LISTENERS", f"PLAINTEXT://0.0.0.0:{running.port},INTERNAL://0.0.0.0:1")
        assert main([]) == 0


def test_silent_or_unreachable_broker_is_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert main(["--broker", address, "--timeout", "0.2"]) == 1
        assert "timed out" in capsys.readouterr().err
    assert main(["--broker", address]) == 1
    assert capsys.readouterr().err == f"ottla health: {address}: Connection refused\n"
    assert main(["-b", "nowhere"]) == 1
    assert capsys.readouterr().err.endswith("ottla health: nowhere: this is not an address: use HOST:PORT, such as localhost:9092\n")


def test_health_check_of_a_secured_broker_uses_the_client_properties_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    with InProcessBroker(tmp_path / "data", tls=True, users={"ann": "secret"}) as broker:
        lines = as_lines(broker.client_properties("java", "ann"))
        file.write_text("\n".join(lines))
        monkeypatch.setenv("OTTLA_CLIENT_CONFIG", str(file))
        assert main(["--broker", broker.bootstrap]) == 0
        file.write_text("\n".join(lines).replace("secret", "nope"))
        assert main(["--broker", broker.bootstrap]) == 1
        assert "authentication of ann failed" in capsys.readouterr().err
        file.write_text("\n".join(line for line in lines if not line.startswith("sasl.")).replace("SASL_SSL", "SSL"))
        assert main(["--broker", broker.bootstrap, "--config", str(file)]) == 0, "ApiVersions is answered before a log-in"
        monkeypatch.delenv("OTTLA_CLIENT_CONFIG")
        assert main(["--broker", broker.bootstrap, "--timeout", "2"]) == 1
        assert "if it requires TLS or SASL, give --config" in capsys.readouterr().err
    with InProcessBroker(tmp_path / "open") as broker, connect("127.0.0.1", broker.port, "next") as client:
        assert client.highest_version(ApiVersionsRequest), "how one check came in is nothing to the next connection of the process"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ("127.0.0.1:9092", False)),
        ({"OTTLA_LISTENERS": "PLAINTEXT://:9093"}, ("127.0.0.1:9093", False)),
        ({"OTTLA_LISTENERS": "PLAINTEXT://10.0.0.7:9092"}, ("10.0.0.7:9092", False)),
        ({"OTTLA_LISTENERS": "PLAINTEXT://[::]:9092"}, ("::1:9092", False)),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://far.away:9095"}, ("127.0.0.1:9095", False)),
        (
            {"KAFKA_CFG_LISTENERS": "CONTROLLER://:9093,CLIENT://:9094", "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER"},
            ("127.0.0.1:9094", False),
        ),
        (
            {"OTTLA_LISTENERS": "CONTROLLER://0.0.0.0:9093", "OTTLA_CONTROLLER_LISTENER_NAMES": "CONTROLLER"},
            ("127.0.0.1:9093", False),
        ),
        ({"KAFKA_LISTENERS": "A://:1", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:SASL_SSL"}, ("127.0.0.1:1", True)),
        ({"KAFKA_LISTENERS": "SSL://:1"}, ("127.0.0.1:1", True)),
    ],
)
def test_health_check_uses_the_first_client_listener_on_loopback(env: dict[str, str], expected: tuple[str, bool]) -> None:
    assert first_listener(env) == expected


def test_a_health_check_imports_neither_the_broker_nor_the_command_lines_libraries() -> None:
    code = "import sys, ottla.broker.cli.health; print([m for m in ('typer', 'rich', 'ottla.broker.app', 'aiokafka') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
