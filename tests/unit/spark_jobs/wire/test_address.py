from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs.wire.address import address, address_of, url_with


def test_url_without_a_port_uses_kafkas_port() -> None:
    assert address_of("kafka://a:1,b,[::1]:3").servers == (("a", 1), ("b", 9092), ("::1", 3))


def test_url_is_shown_without_its_properties() -> None:
    assert address_of("kafka://a:1,b?client.id=x&max.bytes.per.second=5").name == "kafka://a:1,b:9092"


@pytest.mark.parametrize("text", ["kafka://", "kafka://a:b", "kafka://a:0", "kafka://a:1,,b:2"])
def test_url_without_a_broker_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="names no broker"):
        address_of(text)


def test_password_in_a_url_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"command\.config"):
        address_of("kafka://a:1?sasl.password=secret")


def test_properties_file_is_read_like_by_kafkas_tools(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=p\\u0020w\n")
    found = address_of(url_with("kafka://a:1", {"command.config": file, "max.bytes.per.second": 7}))
    assert (found.security.username, found.security.password, found.bytes_per_second) == ("ann", "p w", 7)


def test_given_properties_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=file\nrequest.timeout.ms=5000\n")
    found = address("a:1", {"command.config": str(file), "client.id": "given"})
    assert (found.client_id, found.timeout_s) == ("given", 5.0)


def test_invalid_rate_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"max\.bytes\.per\.second"):
        address_of("kafka://a:1?max.bytes.per.second=fast")


def test_unset_properties_are_not_added_to_a_url() -> None:
    assert url_with("kafka://a:1", {"command.config": None, "max.bytes.per.second": 0}) == "kafka://a:1"
