"""Reader of keys and certificates in PEM, as Kafka reads them (KIP-651): from files, and from settings in which newlines may have become
spaces.

Invariants:
* Text between the PEM blocks is ignored, and there must be exactly one private key.
* Callers that decrypt the key check that it is PKCS#8, the only format that Kafka reads.
* The time is proportional to the text's length, because a client may send the text or name the file (IncrementalAlterConfigs). RE2 matches
  Kafka's expression, for which a backtracking matcher takes exponential time, in each part of the text with one block by itself.

Source: KAFKA DefaultSslEngineFactory.PemParser, PemStore.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Any, Final

from ottla.broker.core import limits


class StoreError(ValueError):
    """Raised if keys or certificates cannot be used. The text names the problem without any secret."""


_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"
_BEGIN: Final = "-BEGIN"
_BEFORE_BLOCK: Final = re.compile(rf"(?<=[\r\n])(?=(?:(?!-END)[^\r\n])*?{_BEGIN})")
"""The start of each line in which a block begins and no earlier block ends."""


@cache
def _blocks(name: str) -> Any:
    """Return the compiled RE2 expression for blocks with the label `name`; its type is Any, because the library has no types."""
    import re2  # noqa: PLC0415 # costs a start 5 ms and 2.5 MB, and few brokers have stores in PEM

    spaced = name.replace(" ", r"\s+")

    def edge(word: str) -> str:
        return rf"-+{word}\s*[^\r\n]*{spaced}[^-]*-+\s+"

    return re2.compile(edge("BEGIN") + r"(?:\s*[^\r\n]*:[^\r\n]*[\r\n]+)*" + r"([a-zA-Z0-9/+=\s]*)" + edge("END"))


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
    if len(text) > limits.STORE_BYTES or text.count(_BEGIN) > limits.PEM_BLOCKS:
        raise StoreError(f"a PEM text may have at most {limits.STORE_BYTES} characters and {limits.PEM_BLOCKS} blocks")
    found = []
    for part in _BEFORE_BLOCK.split(text + "\n"):
        for match in _blocks(name).finditer(part):
            try:
                found.append(base64.b64decode("".join(match[1].split()), validate=True))
            except binascii.Error as error:
                raise StoreError(f"a {name} entry in PEM is not base64") from error
    if not found:
        raise StoreError(f"No matching {name} entries in PEM file")
    return found
