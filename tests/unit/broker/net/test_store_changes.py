"""Changing a listener's certificate and truststore at run time by the admin API, with real handshakes."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path
from random import SystemRandom

import pytest

from client_compat.support.ports import free_port
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.configs.config_op import OpType
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core import limits
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.broker.core.settings_load import load
from ottla.broker.net.store_changes import StoreChanges
from ottla.broker.storage.formatting import format_directory
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_configs_resource_response import AlterConfigsResourceResponse
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.certificates import Certificates
from tests.support.running_broker import HOST, RunningBroker

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
KEYSTORE, TRUSTSTORE = (f"listener.name.s.ssl.{name}.location" for name in ("keystore", "truststore"))
REFUSED = ErrorCode.INVALID_REQUEST


class Harness:
    """A broker with TLS, and a client that stays connected."""

    def __init__(self, directory: Path, **others: str) -> None:
        self.made, self.strangers = Certificates(directory / "tls"), Certificates(directory / "strangers")
        self.server = self.made.of("first", HOST, "localhost", unit="broker")
        listener = {"listeners": f"S://{HOST}:0", "listener.security.protocol.map": "S:SSL", "ssl.client.auth": "requested"}
        own = {"ssl.keystore.location": str(self.server), **{name.replace("_", "."): text for name, text in others.items()}}
        self.broker = RunningBroker(directory / "data", {**listener, **self.made.pem_settings(), **own})

    def connect(self, own: Path | None = None) -> Client:
        context = ssl.create_default_context(cafile=self.made.ca)
        if own is not None:
            context.load_cert_chain(own)
        return Client(HOST, self.broker.port, wrap=lambda connected: context.wrap_socket(connected, server_hostname=HOST))

    def shown(self) -> bytes | None:
        """Return the server's certificate in a new connection; None if the handshake fails."""
        context = ssl.create_default_context(cafile=self.made.ca)
        with Client(HOST, self.broker.port, wrap=lambda connected: self._kept(context, connected)):
            return self._wrapped.getpeercert(binary_form=True)

    def _kept(self, context: ssl.SSLContext, connected: object) -> ssl.SSLSocket:
        self._wrapped = context.wrap_socket(connected, server_hostname=HOST)  # type: ignore[arg-type] # a socket
        return self._wrapped

    def alter(self, client: Client, name: str, value: str | None, *, validate_only: bool = False) -> AlterConfigsResourceResponse:
        op = OpType.DELETE if value is None else OpType.SET
        resource = AlterConfigsResource(ResourceType.BROKER, "1", [AlterableConfig(name, op, value)])
        answer: AlterConfigsResourceResponse = client.call(IncrementalAlterConfigsRequest([resource], validate_only), 1).responses[0]
        return answer


def certificate(file: Path) -> bytes:
    text = file.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") : text.index("-----END CERTIFICATE") + 25])


def test_a_new_certificate_applies_to_new_connections_and_after_a_restart(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    second = harness.made.of("second", HOST, "localhost", "more", unit="broker")
    with harness.broker as broker, harness.connect() as client:
        assert harness.shown() == certificate(harness.server)
        assert harness.alter(client, KEYSTORE, str(second), validate_only=True).error_code == 0
        assert harness.shown() == certificate(harness.server)
        assert harness.alter(client, KEYSTORE, str(second)).error_code == 0
        assert harness.shown() == certificate(second)
        assert client.call(MetadataRequest(topics=[]), 1).brokers, "who is connected stays"
        broker.restart()
        assert harness.shown() == certificate(second)
        with harness.connect() as other:
            fewer = harness.alter(other, KEYSTORE, None)
            assert (fewer.error_code, "SubjectAltNames do not match" in fewer.error_message) == (REFUSED, True), "back at the first"
        assert harness.shown() == certificate(second)


def test_a_modified_file_is_read_again_when_any_setting_of_the_broker_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(tmp_path)
    second, stranger = harness.made.of("second", HOST, "localhost", unit="broker"), harness.made.of("stranger", HOST, "localhost")
    with harness.broker, harness.connect() as client:
        for now, (content, seen) in enumerate(((second, second), (stranger, second), (second, second)), 1):
            harness.server.write_bytes(content.read_bytes())
            os.utime(harness.server, (now, now))
            assert harness.alter(client, "max.connections", "1000").error_code == 0
            assert harness.shown() == certificate(seen)
        assert (
            "Cannot reload the stores of listener S; the previous ones stay in use: Keystore DistinguishedName does not match"
            in caplog.text
        )


def test_a_certificate_for_another_name_or_a_missing_one_is_rejected(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    other = harness.made.of("other", HOST, "localhost", unit="another")
    fewer = harness.made.of("fewer", HOST, unit="broker")
    with harness.broker, harness.connect() as client:
        for value, words in (
            (str(other), "Keystore DistinguishedName does not match"),
            (str(fewer), "Keystore SubjectAltNames do not match"),
            (str(tmp_path / "none"), "No such file"),
            (str(harness.made.ca), "Private key"),
            ("", "ssl.keystore.location"),
        ):
            refused = harness.alter(client, KEYSTORE, value)
            assert refused.error_code == REFUSED, value
            assert words.lower() in refused.error_message.lower(), refused.error_message
        assert harness.alter(client, "listener.name.other.ssl.keystore.location", "/nowhere").error_code == 0, "there is no such listener"
        assert harness.shown() == certificate(harness.server)


def test_a_store_that_is_too_large_or_no_regular_file_is_rejected(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(harness.server.read_bytes() + bytes(limits.STORE_BYTES))
    with harness.broker, harness.connect() as client:
        for name in (KEYSTORE, TRUSTSTORE):
            for file, words in ((pipe, "not a regular file"), ("/dev/zero", "not a regular file"), (large, "has more than 1048576 bytes")):
                refused = harness.alter(client, name, str(file))
                assert (refused.error_code, words in refused.error_message) == (REFUSED, True), refused.error_message


def test_a_pem_setting_with_many_headers_does_not_block_the_broker(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    with harness.broker, harness.connect() as client:
        refused = harness.alter(client, "listener.name.s.ssl.truststore.certificates", "-----BEGIN CERTIFICATE-----\n" + ":::\n" * 5_000)
        assert refused.error_code == REFUSED


def test_stores_are_opened_once_if_a_request_names_the_broker_many_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr(StoreChanges, "check", lambda _changes, wanted: opened.append(wanted))
    harness = Harness(tmp_path)
    with harness.broker, harness.connect() as client:
        assert harness.alter(client, KEYSTORE, str(harness.server)).error_code == 0
        assert len(opened) == 1
        resource = AlterConfigsResource(ResourceType.BROKER, "1", [AlterableConfig(KEYSTORE, OpType.SET, str(harness.server))])
        answers = client.call(IncrementalAlterConfigsRequest([resource] * 20), 1).responses
        assert {answer.error_message for answer in answers} == {"Each resource must appear at most once."}
        assert len(opened) == 1


def test_a_certificate_for_another_name_can_be_allowed(tmp_path: Path) -> None:
    harness = Harness(tmp_path, ssl_allow_dn_changes="true", ssl_allow_san_changes="true")
    other = harness.made.of("other", HOST, unit="another")
    with harness.broker, harness.connect() as client:
        assert harness.alter(client, KEYSTORE, str(other)).error_code == 0
        assert harness.shown() == certificate(other)


def test_the_truststore_can_change_at_run_time(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    with harness.broker, harness.connect() as client:
        with pytest.raises((ssl.SSLError, ConnectionError)), harness.connect(harness.strangers.client) as stranger:
            stranger.call(MetadataRequest(topics=[]), 1)
        both = tmp_path / "both.pem"
        both.write_bytes(harness.made.ca.read_bytes() + harness.strangers.ca.read_bytes())
        assert harness.alter(client, TRUSTSTORE, str(both)).error_code == 0
        with harness.connect(harness.strangers.client) as stranger:
            assert stranger.call(MetadataRequest(topics=[]), 1).brokers


def test_a_client_without_alter_permission_learns_nothing_about_files(tmp_path: Path) -> None:
    harness = Harness(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:nobody")
    with harness.broker, harness.connect() as client:
        for file in (harness.made.ca, tmp_path / "none"):
            assert harness.alter(client, KEYSTORE, str(file)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_controllers_listeners_follow_store_changes(tmp_path: Path) -> None:
    made, port, directory = Certificates(tmp_path / "tls"), free_port(), tmp_path / "controller"
    first, second = (made.of(name, HOST, unit="node") for name in ("first", "second"))
    settings = {
        **made.pem_settings(),
        "process.roles": "controller",
        "node.id": "1",
        "log.dir": str(directory),
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{port}",
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.location": str(first),
    }
    levels, at = bootstrap_levels({}, None, dynamic_quorum=True), [VoterEndpoint("CONTROLLER", HOST, port)]
    format_directory(directory, CLUSTER_ID, 1, levels, 0, is_controller=True, voter_at=at, random_bytes=SystemRandom().randbytes)
    node = ControllerNode(load(settings, {}, None).settings)

    def shown_then_altered() -> bytes:
        context = ssl.create_default_context(cafile=made.ca)
        with socket.create_connection((HOST, port)) as plain, context.wrap_socket(plain, server_hostname=HOST) as connected:
            certificate = connected.getpeercert(binary_form=True)
        with Client(HOST, port, wrap=lambda connected: context.wrap_socket(connected, server_hostname=HOST)) as client:
            op = AlterableConfig("listener.name.controller.ssl.keystore.location", OpType.SET, str(second))
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.BROKER, "1", [op])])
            assert client.call(request, 1).responses[0].error_code == 0
        assert certificate is not None
        return certificate

    await node.start()
    try:
        assert await asyncio.to_thread(shown_then_altered) == certificate(first)
        assert await asyncio.to_thread(shown_then_altered) == certificate(second)
    finally:
        await node.stop()
