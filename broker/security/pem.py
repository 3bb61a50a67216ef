"""Reader of keys and certificates in PEM, as Kafka reads them (KIP-651): from files, and from settings in which newlines may have become
spaces.

Invariants:
* Text between the PEM blocks is ignored, and there must be exactly one private key.
* Callers that decrypt the key check that it is PKCS#8, the only format that Kafka reads.

Source: KAFKA DefaultSslEngineFactory.PemParser, PemStore.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final


class StoreError(ValueError):
    """Raised if keys or certificates cannot be used. The text names the problem without any secret."""


def _blocks(name: str) -> re.Pattern[str]:
    spaced = name.replace(" ", r"\s+")

    def edge(word: str) -> str:
        return rf"-+{word}\s*.*{spaced}[^-]*-+\s+"

    return re.compile(edge("BEGIN") + r"(?:\s*[^\r\n]*:[^\r\n]*[\r\n]+)*" + r"([a-zA-Z0-9/+=\s]*)" + edge("END"))


_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"
_PATTERNS: Final = {name: _blocks(name) for name in (_CERTIFICATE, _PRIVATE_KEY)}


def certificates(text: str) -> list[bytes]:
    """Return the DER form of each certificate in a PEM text. Raises StoreError if there is none, or one is not valid base64."""
    return _entries(_CERTIFICATE, text)


def private_key(text: str) -> bytes:
    """Return the DER form of the private key in a PEM text; the key may be encrypted. Raises StoreError if there is not exactly one private
    key."""
    found = _entries(_PRIVATE_KEY, text)
    if len(found) != 1:
        raise StoreError(f"Expected one private key, but found {len(found)}")
    return found[0]


def block(name: str, der: bytes) -> bytes:
    """Return `der` as a PEM block with the label `name`, for OpenSSL."""
    body = base64.b64encode(der).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----\n".encode()


def _entries(name: str, text: str) -> list[bytes]:
    found = []
    for match in _PATTERNS[name].finditer(text + "\n"):
        try:
            found.append(base64.b64decode(re.sub(r"\s", "", match[1]), validate=True))
        except binascii.Error as error:
            raise StoreError(f"a {name} entry in PEM is not base64") from error
    if not found:
        raise StoreError(f"No matching {name} entries in PEM file")
    return found
