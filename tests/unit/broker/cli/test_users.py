"""Commands against a broker that requires authentication: `--config client.properties`, and `ottla users`."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.broker.cli.security import connect
from ottla.broker.security.client_properties import as_lines
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest
from ottla.spark_jobs.wire.address import address
from ottla.spark_jobs.wire.connection import connect as connect_audit
from ottla.spark_jobs.wire.security import security_of

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessBroker]:
    settings = {"delegation.token.secret.key": "of all nodes"}
    with InProcessBroker(tmp_path_factory.mktemp("locked") / "data", settings, tls=True, users={"alice": "s;ecret"}) as running:
        yield running


def ottla(broker: InProcessBroker, properties: dict[str, str] | None, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
    file = broker.data_dir.with_name("client.properties")
    file.write_text("\n".join(as_lines(properties or {})))
    command = [sys.executable, "-m", "ottla", *([] if properties is None else ["--config", str(file)]), *argv, "-b", broker.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, input=text, timeout=TIMEOUT_S, check=False)


@pytest.mark.parametrize(("kind", "mechanism"), [("java", "PLAIN"), ("java", "SCRAM-SHA-256"), ("librdkafka", "SCRAM-SHA-512")])
def test_commands_authenticate_with_kafkas_client_properties(broker: InProcessBroker, kind: str, mechanism: str) -> None:
    properties = broker.client_properties(kind, mechanism=mechanism)
    topic = f"{kind}-{mechanism}"
    assert ottla(broker, properties, "topics", "create", topic).returncode == 0
    assert ottla(broker, properties, "produce", topic, text="one\ntwo\n").returncode == 0
    done = ottla(broker, properties, "consume", topic, "--from-beginning", "--exit-at-end")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr


def test_users_are_added_listed_and_removed_and_a_password_is_shown_nowhere(broker: InProcessBroker) -> None:
    properties = broker.client_properties()
    added = ottla(broker, properties, "users", "add", "carol", "--mechanism", "SCRAM-SHA-512", "--password", "her own")
    assert added.returncode == 0, added.stderr
    listed = ottla(broker, properties, "users", "list", "--json")
    assert '"user": "carol"' in listed.stdout
    carols = {**broker.client_properties("librdkafka", mechanism="SCRAM-SHA-512"), "sasl.username": "carol", "sasl.password": "her own"}
    assert ottla(broker, carols, "topics", "list").returncode == 0
    assert ottla(broker, properties, "users", "remove", "carol", "--mechanism", "SCRAM-SHA-512").returncode == 0
    refused = ottla(broker, carols, "topics", "list")
    assert refused.returncode == 1
    assert "authentication of carol failed: Authentication failed" in refused.stderr
    for done in (added, listed, refused):
        assert "her own" not in done.stdout + done.stderr


def test_tools_and_audit_authenticate_with_a_delegation_token(broker: InProcessBroker) -> None:
    properties = broker.client_properties(mechanism="SCRAM-SHA-256")
    assert ottla(broker, properties, "topics", "create", "orders").returncode == 0
    host, port = broker.bootstrap.split(":")
    with connect(host, int(port), "test", security=security_of(properties)) as client:
        token = client.call(CreateDelegationTokenRequest(), 3)
    proof = base64.b64encode(bytes(token.hmac)).decode()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    by_token = {**properties, "sasl.jaas.config": f'{module} required username="{token.token_id}" password="{proof}" tokenauth="true";'}
    listed = ottla(broker, by_token, "topics", "list")
    assert (listed.returncode, "orders" in listed.stdout) == (0, True), listed.stderr
    where = address(broker.bootstrap, by_token)
    with connect_audit(where, host, int(port)) as client:
        refused = client.call(CreateDelegationTokenRequest(), 3)  # the owner's, but for other tokens
    assert (refused.error_code, refused.principal_name) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "alice")
    produced = ottla(broker, by_token, "produce", "orders", text="one\n")
    assert (produced.returncode, "does not support delegation tokens" in " ".join(produced.stderr.split())) == (2, True)
    assert proof not in listed.stderr + produced.stderr


def test_removing_an_unknown_user_is_reported(broker: InProcessBroker) -> None:
    done = ottla(broker, broker.client_properties(), "users", "remove", "nobody")
    assert (done.returncode, "RESOURCE_NOT_FOUND" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER: one of"),
        ({"ssl.truststore.location": "/no/such/ca.pem"}, "No such file"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: one of"),
        ({"sasl.oauthbearer.token.endpoint.url": "x"}, "is not understood"),
    ],
)
def test_invalid_client_properties_are_reported_in_one_line(broker: InProcessBroker, changed: dict[str, str], words: str) -> None:
    done = ottla(broker, {**broker.client_properties(), **changed}, "topics", "list")
    assert done.returncode in {1, 2}
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "s;ecret" not in done.stderr
