from __future__ import annotations

import base64

import pytest

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
