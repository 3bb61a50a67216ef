"""The security properties of Java, librdkafka and Python clients mean the same; settings that cannot work are rejected by name."""

from __future__ import annotations

import sys

import pytest

from ottla.protocol.login import NotTrusted
from ottla.spark_jobs.wire.security import Kerberos, Security, security_of

JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b;c";',
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "ca.pem",
    "ssl.endpoint.identification.algorithm": "",
}
LIBRDKAFKA = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-256",
    "sasl.username": "ann",
    "sasl.password": 'a"b;c',
    "ssl.ca.location": "ca.pem",
    "ssl.endpoint.identification.algorithm": "",
}
KAFKA_PYTHON = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "ann",
    "sasl_plain_password": 'a"b;c',
    "ssl_cafile": "ca.pem",
    "ssl_check_hostname": "false",
}
TICKETS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize("properties", [JAVA, LIBRDKAFKA, KAFKA_PYTHON], ids=["java", "librdkafka", "kafka-python"])
def test_property_names_of_every_client_are_understood(properties: dict[str, str]) -> None:
    assert security_of(properties) == Security("SASL_SSL", "SCRAM-SHA-256", "ann", 'a"b;c', ca="ca.pem", check_hostname=False)


def test_properties_without_relation_to_security_are_ignored() -> None:
    assert security_of({"retries": "5", "bootstrap.servers": "a:1", "key.serializer": "x"}) == Security()


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"ssl.cafiel": "ca.pem"}, "ssl.cafiel"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER"),
        ({**TICKETS, "sasl.jaas.config": f"{KRB5} useKeyTab=true;"}, "GSSAPI needs useKeyTab=true with keyTab and principal"),
        ({**TICKETS, "sasl.jaas.config": f'{KRB5} useKeyTab=true keyTab="/k";'}, "the keytab /k needs a principal"),
        ({**TICKETS, "sasl.kerberos.keytab": "/k"}, "the keytab /k needs a principal"),
        ({**TICKETS, "sasl.kerberos.domain.name": "h"}, "sasl.kerberos.domain.name"),
        (
            {**TICKETS, "sasl.kerberos.service.name": "a", "sasl.jaas.config": f'{KRB5} useTicketCache=true serviceName="b";'},
            "sasl.kerberos.service.name=a, but serviceName of sasl.jaas.config is b",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}, "password"),
        ({"ssl.truststore.location": "trust.jks"}, "PEM"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required username="id" password="hmac" tokenauth="true";',
            },
            "tokenauth: .* by SCRAM",
        ),
    ],
)
def test_invalid_security_property_is_rejected_by_name(properties: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        security_of(properties)


@pytest.mark.parametrize(
    ("options", "user", "password", "by_token"),
    [
        ('username="id" password="hm+/ac=" tokenauth="true"', "id", "hm+/ac=", True),
        ("username=id password=hmac tokenauth=TRUE", "id", "hmac", True),
        ('username="ann" password="x tokenauth=true username=eve" tokenauth="false"', "ann", "x tokenauth=true username=eve", False),
    ],
)
def test_delegation_token_is_recognised_by_its_tokenauth_option(options: str, user: str, password: str, by_token: bool) -> None:
    found = security_of({**JAVA, "sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {options};"})
    assert (found.username, found.password, found.by_token) == (user, password, by_token)


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({}, Kerberos()),
        ({"sasl_kerberos_service_name": "k"}, Kerberos("k")),
        (
            {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "ann@R", "sasl.kerberos.kinit.cmd": "x"},
            Kerberos("kafka", "ann@R", "/k"),
        ),
        ({"sasl.jaas.config": f'{KRB5} useKeyTab=true keyTab="/k" principal="ann@R" serviceName="k";'}, Kerberos("k", "ann@R", "/k")),
        ({"sasl.jaas.config": f"{KRB5} useTicketCache=true keyTab=/k;"}, Kerberos()),
        ({"sasl.jaas.config": f'{KRB5} useTicketCache=true ticketCache="FILE:/c";'}, Kerberos("kafka", "", "", "FILE:/c")),
    ],
)
def test_kerberos_properties_of_each_client_are_understood(properties: dict[str, str], found: Kerberos) -> None:
    assert security_of({**TICKETS, **properties}) == Security("SASL_PLAINTEXT", "GSSAPI", kerberos=found)


def test_missing_gssapi_library_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ottla.protocol.kerberos", None)
    with pytest.raises(NotTrusted, match=r"GSSAPI needs python-gssapi, where it is used: pip install 'ottla\[gssapi\]'"):
        security_of(TICKETS).tokens("h")


def test_repr_contains_no_password() -> None:
    assert 'a"b' not in repr(security_of(JAVA))
