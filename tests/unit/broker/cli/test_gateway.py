"""`ottla gateway` as a process: errors at its start, and its admin port."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from client_compat.support.brokers import gateway
from client_compat.support.ports import free_port
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.running_broker import HOST, RunningBroker

TIMEOUT_S = 20
ROOT = Path(__file__).parents[4]
OTTLA = (sys.executable, "-m", "ottla")
COMMAND = (*OTTLA, "gateway")


def failed(*options: str) -> str:
    """Run a command that must fail without a traceback; return its standard error in one line."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_gateway_prints_its_address_and_serves_until_a_signal(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    with RunningBroker(tmp_path / "data") as broker:
        argv = [*COMMAND, "--to", broker.bootstrap, "--port", "0", "--port-file", str(port_file)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                port = int(port_file.read_text())
                assert f"gateway to {broker.bootstrap} is listening on {HOST}:{port}" in line
                with Client(HOST, port) as client:
                    assert client.call(MetadataRequest([])).brokers
            finally:
                process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_compose_example_gateway_is_reached_from_the_host_and_loads_faults_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = yaml.safe_load((ROOT / "docs" / "examples" / "gateway-compose.yml").read_text())["services"]["gateway"]
    assert service["ports"] == ["127.0.0.1:19092:19092", "127.0.0.1:19094:19094"]
    monkeypatch.setenv("OTTLA_ADMIN_TOKEN", service["environment"]["OTTLA_ADMIN_TOKEN"])
    monkeypatch.setenv("OTTLA_ADMIN", f"{HOST}:{(admin := free_port())}")
    port_file = tmp_path / "port"
    with RunningBroker(tmp_path / "data") as broker:
        own = {"kafka:9092": broker.bootstrap, "9644": str(admin)}
        argv = [own.get(word, word) for word in service["command"]]
        with subprocess.Popen([*OTTLA, *argv, "--port=0", f"--port-file={port_file}"], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                port = int(port_file.read_text())
                check = [word.replace("19092", str(port)) for word in service["healthcheck"]["test"][2:]]
                for inside in (check, ["faults", "add", "drop-request:api=Metadata,after=1,times=1"]):
                    subprocess.run([*OTTLA, *inside], check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
                with Client(HOST, port) as client:
                    assert [each.host for each in client.call(MetadataRequest([])).brokers] == ["localhost"]
                    with pytest.raises(ConnectionError):
                        client.call(MetadataRequest([]))
            finally:
                process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_gateway_loads_faults_at_the_start_and_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_ADMIN_TOKEN", "secret")
    admin, port_file = free_port(), tmp_path / "port"
    with RunningBroker(tmp_path / "data") as broker:
        options = ["--port=0", f"--port-file={port_file}", f"--admin-port={admin}", "--fault=drop-request:api=Metadata,times=1,name=first"]
        with subprocess.Popen([*COMMAND, "--to", broker.bootstrap, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                port = int(port_file.read_text())
                with Client(HOST, port) as client, pytest.raises(ConnectionError):
                    client.call(MetadataRequest([]), 9)
                assert [(rule["name"], rule["consumed"]) for rule in admin_call(admin, "/faults")] == [("first", True)]
                assert admin_call(admin, "/faults", {"action": "throttle", "ms": 7, "times": 1})["name"] == "throttle-1"
                with pytest.raises(HTTPError) as refused:
                    admin_call(admin, "/faults", {"action": "disk-full", "topic": "t"})
                assert "only a broker has a disk" in refused.value.read().decode()
                with Client(HOST, port) as client:
                    assert client.call(MetadataRequest([]), 9).throttle_time_ms == 7
                    assert admin_call(admin, "/health")["connections"] == 1
                assert admin_call(admin, "/clock/advance", {"ms": 5})["ahead_ms"] == 5
                marks = [*OTTLA, "marks", "list", "--admin", f"{HOST}:{admin}"]
                assert "Only a broker has marks" in subprocess.run(marks, capture_output=True, text=True, check=False).stderr
            finally:
                process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_console_option_opens_the_gateways_admin_port_and_prints_its_url_with_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_ADMIN_TOKEN", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    options = ["--port=0", f"--admin-port={free_port()}", "--console"]
    with subprocess.Popen(
        [*COMMAND, "--to", "localhost:1", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            printed = [process.stdout.readline() for _ in range(3)]
            page, token = printed[2].removeprefix("The console of the gateway: ").strip().split("#token=")
            assert printed[1].strip() == f"The admin port's token: {token}"
            with urlopen(page, timeout=TIMEOUT_S) as answer:
                assert b"Ottla console" in answer.read()
            with urlopen(Request(f"{page}/wire", headers={"Authorization": f"Bearer {token}"}), timeout=TIMEOUT_S) as answer:
                assert json.load(answer)["lines"] == []
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def admin_call(port: int, path: str, body: dict[str, object] | None = None) -> Any:
    """Send a request with the token to the admin port, a POST if there is a body; return the JSON. Raises HTTPError."""
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    request = Request(f"http://{HOST}:{port}{path}", None if body is None else json.dumps(body).encode(), headers)
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def test_invalid_gateway_options_are_rejected_with_advice(tmp_path: Path) -> None:
    assert "only a broker can crash" in failed("--to", "localhost", "--fault", "crash:step=marked")
    assert "choose from 'debug', 'info'" in failed("--to", "localhost", "--log-level", "loud")
    assert "cannot be written: Is a directory" in failed("--to", "localhost", "--log", str(tmp_path))
    assert "unknown fault 'x'" in failed("--to", "localhost", "--fault", "x")
    for text in ("-1", "nan", "soon"):
        assert f"'{text}' is not a number of at least 0" in failed("--to", "localhost", f"--log-slower-than={text}")
    nothing = tmp_path / "none.pem"
    properties = tmp_path / "client.properties"
    properties.write_text(f"security.protocol=SSL\nssl.truststore.location={nothing}\nssl.truststore.type=PEM\n")
    for to in ("localhost:x", ",", "localhost:9092,"):
        assert "use HOST:PORT" in failed("--to", to)
    assert "is not a PEM file with a certificate and its key" in failed("--to", "localhost", "--tls-certificate", str(nothing))
    assert "TLS cannot be set up" in failed("--to", "localhost", "--to-config", str(properties))
    only_certificate = Certificates(tmp_path / "certificates").ca
    assert "is not a PEM file with a certificate and its key" in failed("--to", "localhost", "--tls-certificate", str(only_certificate))
    certificate = str(Certificates(tmp_path / "certificates").server)
    assert "is not a PEM file" in failed("--to", "localhost", "--tls-certificate", certificate, "--tls-client-ca", str(nothing))
    assert "needs --tls-certificate" in failed("--to", "localhost", "--tls-client-ca", str(only_certificate))
    for option in ("--log-json", "--log-errors", "--log-only=api=Fetch", "--log-slower-than=5"):
        assert f"{option.partition('=')[0]} needs --log FILE" in failed("--to", "localhost", option)
    assert "--admin-host needs --admin-port" in failed("--to", "localhost", "--admin-host", "0.0.0.0")


def test_gateway_clients_need_a_certificate_of_the_given_authority(tmp_path: Path) -> None:
    own, others = Certificates(tmp_path / "own"), Certificates(tmp_path / "others")
    options = ["--tls-certificate", str(own.server), "--tls-client-ca", str(own.ca)]
    with RunningBroker(tmp_path / "data") as broker, gateway(f"{HOST}:{broker.port}", tmp_path / "log", options=options) as process:

        def connect(certificate: Path | None) -> Client:
            context = ssl.create_default_context(cafile=own.ca)
            if certificate is not None:
                context.load_cert_chain(certificate)
            return Client(HOST, process.port, wrap=lambda plain: context.wrap_socket(plain, server_hostname=HOST))

        with connect(own.client) as client:
            assert client.call(MetadataRequest([])).brokers
        for certificate in (None, others.client):
            with pytest.raises((ConnectionError, ssl.SSLError)), connect(certificate) as client:
                client.call(MetadataRequest([]))


def test_gateway_names_a_port_in_use(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        says = failed("--to", broker.bootstrap, "--port", str(broker.port))
        assert f"cannot listen on {HOST}:{broker.port}" in says
        assert "choose another port with --port" in says


def test_another_port_is_not_advised_for_an_address_of_another_machine() -> None:
    says = failed("--to", "localhost", "--host", "192.0.2.1")
    assert "cannot listen on 192.0.2.1:19092" in says
    assert "--port" not in says


def test_the_command_imports_no_libraries_of_the_command_line_and_no_parts_of_a_broker_that_hold_state(tmp_path: Path) -> None:
    code = "import atexit, sys; from ottla.broker.cli import main; atexit.register(lambda: print(*sys.modules)); main()"
    argv = [
        sys.executable,
        "-c",
        code,
        "gateway",
        "--to",
        "localhost",
        "--log-level",
        "error",
        "--port-file",
        str(tmp_path / "no" / "port"),
    ]
    loaded = subprocess.run(argv, capture_output=True, check=False, text=True, timeout=TIMEOUT_S).stdout.split()
    assert "ottla.broker.net.gateway" in loaded
    assert not {"typer", "rich", "pydantic", "ottla.protocol.client"} & {*loaded}
    packages = {"app", "controller", "storage", "replication", "core.settings", "runtime.replicas", "runtime.coordination", "configs"}
    assert not {f"ottla.broker.{package}" for package in packages} & {*loaded}
