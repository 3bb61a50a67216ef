from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.settings_load import SettingsError
from tests.support.certificates import Certificates
from tests.support.inter_broker_security import PASSWORD, client_security_of, jaas

PLAIN = "listener.name.a.plain.sasl.jaas.config"


def given(name: str, text: str) -> dict[str, str]:
    return {name: text}


def test_only_the_required_client_security_is_loaded(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    assert client_security_of("A", "SASL_PLAINTEXT").tls is None
    assert client_security_of("A", "SSL", ours=made.pem_settings()).sasl is None
    both = client_security_of("A", "SASL_SSL", ours=made.pem_settings("listener.name.a."))
    assert both.tls is not None
    assert both.sasl is not None
    assert list(both.sasl.tokens("h")) == [f"\0node\0{PASSWORD}".encode()]
    assert PASSWORD not in repr(both)


def test_a_node_without_a_truststore_uses_the_systems(tmp_path: Path) -> None:
    found = client_security_of("A", "SSL").tls
    assert found is not None
    assert found.context.check_hostname


@pytest.mark.parametrize(
    ("protocol", "mechanism", "ours", "words"),
    [
        ("SASL_PLAINTEXT", "PLAIN", given(PLAIN, jaas("plain.PlainLoginModule", 'user_a="b"')), rf"{PLAIN} needs username and password"),
        ("SASL_PLAINTEXT", "PLAIN", given(PLAIN, jaas("plain.PlainLoginModule", 'username="b"')), rf"{PLAIN} needs username and password"),
        ("SASL_PLAINTEXT", "PLAIN", given(PLAIN, "x"), rf"{PLAIN}: Login module control flag"),
        (
            "SASL_PLAINTEXT",
            "X",
            given("listener.name.a.sasl.enabled.mechanisms", "X"),
            r"sasl\.mechanism\.inter\.broker\.protocol=X is not supported: allowed are PLAIN, .*GSSAPI",
        ),
        (
            "SASL_PLAINTEXT",
            "OAUTHBEARER",
            given("listener.name.a.oauthbearer.sasl.jaas.config", jaas("oauthbearer.OAuthBearerLoginModule", "")),
            r"oauthbearer\.sasl\.jaas\.config: No principal name in JWT claim",
        ),
        (
            "SASL_PLAINTEXT",
            "OAUTHBEARER",
            given(
                "listener.name.a.oauthbearer.sasl.login.callback.handler.class",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            ),
            r"sasl\.login\.callback\.handler\.class=.*unsigned tokens of its own only",
        ),
        (
            "SSL",
            "PLAIN",
            given("ssl.endpoint.identification.algorithm", "LDAPS"),
            r"inter\.broker\.listener\.name: TLS for connections to A .*ssl\.endpoint\.identification\.algorithm=LDAPS is not supported",
        ),
        (
            "SSL",
            "PLAIN",
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere/ca.pem"},
            r"inter\.broker\.listener\.name: TLS for connections to A cannot be configured: .*nowhere/ca\.pem",
        ),
    ],
)
def test_a_missing_credential_stops_the_start_with_the_settings_name(
    protocol: str, mechanism: str, ours: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        client_security_of("A", protocol, mechanism, ours=ours)
    assert PASSWORD not in str(caught.value)
