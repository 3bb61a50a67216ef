"""`ottla gateway` as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.running_broker import HOST, RunningBroker

TIMEOUT_S = 20
COMMAND = (sys.executable, "-m", "ottla", "gateway")


def failed(*options: str) -> str:
    """Run the command; return what it prints about its failure."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_it_serves_until_a_signal_and_says_where(tmp_path: Path) -> None:
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


def test_wrong_options_are_refused_with_what_to_do(tmp_path: Path) -> None:
    nothing = tmp_path / "none.pem"
    properties = tmp_path / "client.properties"
    properties.write_text(f"security.protocol=SSL\nssl.truststore.location={nothing}\nssl.truststore.type=PEM\n")
    assert "use HOST:PORT" in failed("--to", "localhost:x")
    assert "is not a PEM file with a certificate and its key" in failed("--to", "localhost", "--tls-certificate", str(nothing))
    assert "TLS cannot be set up" in failed("--to", "localhost", "--to-config", str(properties))
    only_certificate = Certificates(tmp_path / "certificates").ca
    assert "is not a PEM file with a certificate and its key" in failed("--to", "localhost", "--tls-certificate", str(only_certificate))


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        assert f"cannot listen on {HOST}:{broker.port}" in failed("--to", broker.bootstrap, "--port", str(broker.port))
