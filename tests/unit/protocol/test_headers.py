from __future__ import annotations

import pytest

from ottla.protocol.errors import MalformedHeader
from ottla.protocol.headers import RequestHeader, read_request_header, read_response_header, request_header, skip_header_tags


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "größer"])
def test_a_request_header_reads_back(client_id: str | None) -> None:
    header = RequestHeader(3, 12, -7, client_id)
    data = request_header(header, flexible=True)
    found, end = read_request_header(memoryview(data + b"body"))
    assert (found, skip_header_tags(memoryview(data + b"body"), end)) == (header, len(data))


def test_a_client_id_that_is_not_utf8_is_a_label_all_the_same() -> None:
    data = b"\0\3\0\1\0\0\0\1" + b"\0\2a\xff"
    assert read_request_header(memoryview(data))[0].client_id == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("data", [b"", b"\0\3\0\1\0\0\0\1\0", b"\0\3\0\1\0\0\0\1\0\x09abc"])
def test_a_request_that_breaks_off_in_its_header_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHeader):
        read_request_header(memoryview(data))


def test_a_response_header_has_tags_only_when_flexible() -> None:
    data = memoryview(b"\0\0\0\5" + b"\1\0\2ab" + b"body")
    assert read_response_header(data, flexible=False) == (5, 4)
    assert read_response_header(data, flexible=True) == (5, 9)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"\0\0\0\5", b"\0\0\0\5\1\0\x7f", b"\0\0\0\5\xff\xff\xff\xff\xff", b"\0\0\0\5\x65" + b"\5\0" * 101]
)
def test_a_response_that_breaks_off_in_its_header_or_has_too_many_tags_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHeader):
        read_response_header(memoryview(data), flexible=True)
