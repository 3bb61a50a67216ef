from __future__ import annotations

import base64

import pytest

from ottla.broker.core import limits
from ottla.broker.security.pem import StoreError, block, certificates, private_key

DER = bytes(range(200))
PEM = block("CERTIFICATE", DER).decode()


def test_certificates_are_found_between_other_text() -> None:
    assert certificates(f"Bag Attributes\n    friendlyName: x\n{PEM}subject=CN = x\n{PEM}") == [DER, DER]


@pytest.mark.parametrize("newline", ["\n", "\r\n", " "])
def test_newlines_may_have_become_spaces(newline: str) -> None:
    assert certificates(PEM.strip().replace("\n", newline)) == [DER]


def test_headers_of_a_block_are_skipped() -> None:
    body = base64.b64encode(DER).decode()
    assert private_key(f"-----BEGIN PRIVATE KEY-----\nLocal: x\n\n{body}\n-----END PRIVATE KEY-----") == DER


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_exactly_one_key_is_required(kind: str) -> None:
    text = block(kind, DER).decode()
    assert private_key(PEM + text) == DER
    with pytest.raises(StoreError, match="Expected one private key, but found 2"):
        private_key(text + text)
    with pytest.raises(StoreError, match="No matching PRIVATE KEY entries in PEM file"):
        private_key(PEM)


def test_headers_without_an_end_are_rejected_in_linear_time() -> None:
    with pytest.raises(StoreError, match="No matching CERTIFICATE entries"):  # with a backtracking matcher, 20 of them took an hour
        certificates("-----BEGIN CERTIFICATE-----\n" + ":::\n" * 100_000)


def test_other_blocks_on_the_line_of_an_end_are_found() -> None:
    body = base64.b64encode(DER).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE----- -----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    assert (certificates(text), private_key(text)) == ([DER], DER)


@pytest.mark.parametrize("newline", ["\n", " "])
def test_of_several_blocks_on_one_line_the_last_is_read_as_in_kafka(newline: str) -> None:
    text = (block("CERTIFICATE", b"first") + block("CERTIFICATE", b"last")).decode().replace("\n", newline)
    assert certificates(text) == ([b"first", b"last"] if newline == "\n" else [b"last"])


def test_the_size_of_a_pem_text_is_limited() -> None:
    assert len(certificates(PEM * limits.PEM_BLOCKS)) == limits.PEM_BLOCKS
    for text in (PEM * (limits.PEM_BLOCKS + 1), PEM + " " * limits.STORE_BYTES):
        with pytest.raises(StoreError, match="a PEM text may have at most 1048576 characters and 1000 blocks"):
            certificates(text)
