from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs.wire.address import address, address_of, url_with


def test_a_url_names_brokers_with_kafkas_port_where_it_names_none() -> None:
    assert address_of("kafka://a:1,b,[::1]:3").servers == (("a", 1), ("b", 9092), ("::1", 3))


def test_findings_are_told_under_the_url_without_its_properties() -> None:
    assert address_of("kafka://a:1,b?client.id=x&max.bytes.per.second=5").name == "kafka://a:1,b:9092"


@pytest.mark.parametrize("text", ["kafka://", "kafka://a:b", "kafka://a:0", "kafka://a:1,,b:2"])
def test_what_names_no_broker_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no broker"):
        address_of(text)


def test_a_password_does_not_stand_in_a_url() -> None:
    with pytest.raises(ValueError, match=r"command\.config"):
        address_of("kafka://a:1?sasl.password=secret")


def test_a_file_of_properties_is_read_as_kafkas_tools_read_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=p\\u0020w\n")
    found = address_of(url_with("kafka://a:1", {"command.config": file, "max.bytes.per.second": 7}))
    assert (found.security.username, found.security.password, found.bytes_per_second) == ("ann", "p w", 7)


def test_what_is_given_goes_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=file\nrequest.timeout.ms=5000\n")
    found = address("a:1", {"command.config": str(file), "client.id": "given"})
    assert (found.client_id, found.timeout_s) == ("given", 5.0)


def test_a_rate_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max\.bytes\.per\.second"):
        address_of("kafka://a:1?max.bytes.per.second=fast")


def test_nothing_is_added_to_a_url_for_what_was_not_given() -> None:
    assert url_with("kafka://a:1", {"command.config": None, "max.bytes.per.second": 0}) == "kafka://a:1"
