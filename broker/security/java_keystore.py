"""Reader of Java keystores (JKS, version 2): private keys with their certificates, and trusted certificates.

Invariants:
* A count or length in the file is compared with the remaining bytes before it is used.
* The integrity of the file is checked if a password is given. A truststore is read without a password, as Java does.
* A key is encrypted with its own password. The encryption is weak (one round of SHA-1); the format prescribes it.

Source: JDK JavaKeyStore, KeyProtector.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.security.pem import StoreError

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""The DER form of the object identifier 1.3.6.1.4.1.42.2.17.1.1. It names the only algorithm by which keys in a Java keystore are
encrypted."""
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY_TAG: Final = 1
_CERTIFICATE_TAG: Final = 2


class JavaEntry(NamedTuple):
    """One entry of a Java keystore. A key entry has the private key as PKCS#8 DER (if it was decrypted) and its certificate chain,
    beginning with the key's own certificate."""

    alias: str
    is_key: bool
    key: bytes | None
    certificates: list[bytes]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise StoreError("the keystore is truncated")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        value: int = struct.unpack(">i", self.take(4))[0]
        return value

    def text(self) -> str:
        size: int = struct.unpack(">H", self.take(2))[0]
        return self.take(size).decode("utf-8", "replace")

    def certificate(self) -> bytes:
        if (kind := self.text()) != "X.509":
            raise StoreError(f"the keystore contains a certificate of type {kind}: only X.509 is supported")
        return self.take(self.number())


def read_java_keystore(data: bytes, password: str | None, key_password: str | None = None, *, open_keys: bool = True) -> list[JavaEntry]:
    """Return all entries of the Java keystore file `data`. `password` checks the file's integrity (None: no check). With `open_keys`,
    decrypt private keys with `key_password`, by default the keystore's password. Raises StoreError for a damaged file or a wrong
    password."""
    if password is not None:
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if not hmac.compare_digest(hashlib.sha1(_wide(password) + _WHITENER + body).digest(), digest):
            raise StoreError("Keystore was tampered with, or password was incorrect")
    reader = _Reader(data)
    if reader.take(4) != MAGIC or reader.number() != 2:
        raise StoreError("not a Java keystore of version 2")
    opens = key_password if key_password is not None else password
    return list(_entries(reader, opens if open_keys else None))


def _entries(reader: _Reader, key_password: str | None) -> Iterator[JavaEntry]:
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # the entry's creation time
        if tag == _CERTIFICATE_TAG:
            yield JavaEntry(alias, False, None, [reader.certificate()])
        elif tag == _KEY_TAG:
            protected = reader.take(reader.number())
            chain = [reader.certificate() for _ in range(reader.number())]
            yield JavaEntry(alias, True, None if key_password is None else _recovered(protected, key_password), chain)
        else:
            raise StoreError(f"the keystore contains an entry with the unknown tag {tag}")


def _recovered(protected: bytes, password: str) -> bytes:
    """Decrypt and return a private key of a Java keystore. The key was encrypted by an XOR with a chain of SHA-1 digests, and a digest of
    the key follows it. Raises StoreError if it cannot be decrypted, for instance with a wrong password."""
    at = protected.find(_PROTECTOR)
    start = protected.find(b"\x04", at + len(_PROTECTOR))
    if at < 0 or start < 0:
        raise StoreError("the key is encrypted with an algorithm other than Java's own")
    size, start = protected[start + 1 : start + 2], start + 2
    if size >= b"\x80":
        start += size[0] & 0x7F
    wrapped = protected[start:]
    if len(wrapped) < 2 * _DIGEST_BYTES:
        raise StoreError("the key is truncated")
    previous, secret = wrapped[:_DIGEST_BYTES], wrapped[_DIGEST_BYTES:-_DIGEST_BYTES]
    wide, key = _wide(password), bytearray()
    for begin in range(0, len(secret), _DIGEST_BYTES):
        previous = hashlib.sha1(wide + previous).digest()
        key += bytes(a ^ b for a, b in zip(secret[begin : begin + _DIGEST_BYTES], previous, strict=False))
    if not hmac.compare_digest(hashlib.sha1(wide + key).digest(), wrapped[-_DIGEST_BYTES:]):
        raise StoreError("Cannot recover key")
    return bytes(key)


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")
