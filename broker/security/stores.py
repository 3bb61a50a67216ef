"""Reads private keys, certificates and trusted certificates from the keystores and truststores that the settings name.

Invariants:
* Valid combinations of settings, and the messages for invalid ones, are Kafka's. The store type `PEM` is taken from the setting; any other
  type is detected from the file's first bytes, as in Java.
* Keys that Kafka rejects are rejected: those that are not PKCS#8, or neither RSA, DSA nor EC.
* The trusted certificates are those that Java takes from a store: certificate entries and, of a key entry, the key's own certificate but
  not its issuers. In PKCS12 a certificate entry is recognized by its friendly name. Java writes this name; OpenSSL does not, so Java does
  not trust entries that OpenSSL wrote.
* No error message contains a password or a key.

Source: KAFKA DefaultSslEngineFactory; JDK TrustStoreUtil, PKCS12KeyStore.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key, pkcs12

from ottla.broker.core import limits
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.security import pem
from ottla.broker.security.java_keystore import JCEKS_MAGIC, MAGIC, read_java_keystore
from ottla.broker.security.pem import StoreError

_PEM: Final = "PEM"
_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_SCRYPT: Final = bytes.fromhex("06092b06010401da47040b")
"""The object identifier of scrypt in DER. Java cannot use it, and its parameters may ask for any memory."""
Read = Callable[[str], bytes]


class KeyMaterial(NamedTuple):
    """A private key as PKCS#8 DER, and its certificate chain as DER, beginning with the key's own certificate."""

    key: bytes
    chain: Sequence[bytes]


def read_store(path: str) -> bytes:
    """Return the contents of a keystore or truststore file. Raises StoreError if it is not a regular file, such as a pipe, which would
    block the broker, or has more than STORE_BYTES bytes; OSError if it cannot be read."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(fd, "rb") as file:  # noqa: PTH123 # pathlib does not open descriptors
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StoreError(f"{path} is not a regular file")
        data = file.read(limits.STORE_BYTES + 1)
    if len(data) > limits.STORE_BYTES:
        raise StoreError(f"{path} has more than {limits.STORE_BYTES} bytes")
    return data


def key_material(security: ListenerSecurity, read: Read) -> KeyMaterial | None:
    """Return the private key and certificates of the configured keystore (a file, or PEM texts in settings), or None without a keystore.
    `read` reads a file. Raises StoreError if the settings contradict each other or the key cannot be used, OSError if the file cannot be
    read."""
    kind, path, password = (
        security.value("ssl.keystore.type"),
        security.text("ssl.keystore.location"),
        security.text("ssl.keystore.password"),
    )
    key, chain, key_password = (security.text(name) for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password"))
    if key is not None:
        if kind != _PEM:
            raise StoreError(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
        if chain is None:
            raise StoreError("SSL private key is specified, but certificate chain is not specified.")
        if path is not None:
            raise StoreError("Both SSL key store location and separate private key are specified.")
        if password is not None:
            raise StoreError("SSL key store password cannot be specified with PEM format, only key password may be specified.")
        return _from_pem(key, chain, key_password)
    if chain is not None:
        raise StoreError("SSL certificate chain is specified, but private key is not specified")
    if path is None:
        if password is not None:
            raise StoreError("SSL key store is not specified, but key store password is specified.")
        return None
    if kind == _PEM:
        if password is not None:
            raise StoreError("SSL key store password cannot be specified with PEM format, only key password may be specified")
        text = read(path).decode("utf-8", "replace")
        return _from_pem(text, text, key_password)
    if password is None:
        raise StoreError("SSL key store is specified, but key store password is not specified.")
    return _from_store(read(path), password, key_password)


def trust_anchors(security: ListenerSecurity, read: Read) -> Sequence[bytes] | None:
    """Return the trusted certificates (DER) of the configured truststore (a file, or PEM texts in settings), or None without a truststore.
    `read` reads a file. Raises StoreError if the settings contradict each other or the truststore is invalid, OSError if the file cannot be
    read."""
    kind, path = security.value("ssl.truststore.type"), security.text("ssl.truststore.location")
    password, certificates = security.text("ssl.truststore.password"), security.text("ssl.truststore.certificates")
    if certificates is not None:
        if kind != _PEM:
            raise StoreError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if path is not None:
            raise StoreError("Both SSL trust store location and separate trust certificates are specified.")
        path = ""
    elif path is None:
        if password is not None:
            raise StoreError("SSL trust store is not specified, but trust store password is specified.")
        return None
    if kind == _PEM:
        if password is not None:
            raise StoreError("SSL trust store password cannot be specified for PEM format.")
        return pem.certificates(read(path).decode("utf-8", "replace") if certificates is None else certificates)
    return _anchors(read(path), password)


def _from_pem(key: str, chain: str, password: str | None) -> KeyMaterial:
    certificates = pem.certificates(chain)
    for certificate in certificates:
        _certificate(certificate)
    return KeyMaterial(_opened(pem.private_key(key), password), certificates)


def _opened(der: bytes, password: str | None) -> bytes:
    """Return a private key as unencrypted PKCS#8 DER. `der` may be encrypted with `password`. Raises StoreError if the password is wrong,
    or the key is not PKCS#8 or not of the type RSA, DSA or EC."""
    _check_encryption(der)
    try:
        key = load_der_private_key(der, None if password is None else password.encode())
    except TypeError as error:
        raise StoreError("Private key could not be loaded: it has a password and ssl.key.password is not set, or the reverse") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StoreError("Private key could not be loaded: the password is wrong or the key is not PKCS#8") from error
    if not isinstance(key, rsa.RSAPrivateKey | dsa.DSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise StoreError("Private key could not be loaded: only RSA, DSA and EC are supported")
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    if password is None and not _is_pkcs8(der):
        raise StoreError("Private key could not be loaded: it is not PKCS#8 (convert it with openssl pkcs8 -topk8)")
    return plain


def _check_encryption(der: bytes) -> None:
    """Raise StoreError if the decryption of a private key in DER would take very long. An encrypted key is a sequence of an algorithm with
    parameters, which include the iterations, and the encrypted bytes; a key that is not encrypted begins with its version."""
    _, key = next(_elements(der), (0, b""))
    tag, algorithm = next(_elements(key), (0, b""))
    if tag == _SEQUENCE and (_SCRYPT in algorithm or max(_integers(algorithm), default=0) > limits.KEY_ITERATIONS):
        raise StoreError(
            f"Private key could not be loaded: it is encrypted with scrypt, or with more than {limits.KEY_ITERATIONS} iterations"
        )


def _integers(der: bytes, depth: int = 4) -> Iterator[int]:
    for tag, contents in _elements(der):
        if tag == _INTEGER:
            yield int.from_bytes(contents, "big")
        elif tag == _SEQUENCE and depth:
            yield from _integers(contents, depth - 1)


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the contents of each DER element in `der`, one after the other."""
    at = 0
    while at + 2 <= len(der):
        tag, size, at = der[at], der[at + 1], at + 2
        if size == 0x80:
            raise StoreError("Private key could not be loaded: it has an indefinite length, which DER does not allow")
        if size & 0x80:
            digits = size & 0x7F
            size, at = int.from_bytes(der[at : at + digits], "big"), at + digits
        yield tag, der[at : at + size]
        at += size


def _is_pkcs8(der: bytes) -> bool:
    """Return whether a private key in DER is PKCS#8. It is if a SEQUENCE follows the version number; in the other formats, an integer
    (PKCS#1) or an octet string (SEC1) follows it."""
    at = 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)
    return der[at : at + 2] == b"\x02\x01" and der[at + 3 : at + 4] == b"\x30"


def _from_store(data: bytes, password: str, key_password: str | None) -> KeyMaterial:
    if data.startswith(MAGIC):
        for entry in read_java_keystore(data, password, key_password):
            if entry.key is not None:
                return KeyMaterial(_opened(entry.key, None), entry.certificates)
        raise StoreError("the keystore contains no private key")
    store = _pkcs12(data, password)
    if store.key is None or store.own is None:
        raise StoreError("the keystore contains no private key")
    if key_password is not None and key_password != password:
        raise StoreError("ssl.key.password must equal ssl.keystore.password for a PKCS12 keystore")
    return KeyMaterial(_opened(store.key, None), _chain(store.own, store.others))


def _anchors(data: bytes, password: str | None) -> list[bytes]:
    if data.startswith(MAGIC):
        found = [entry.certificates[0] for entry in read_java_keystore(data, password, open_keys=False) if entry.certificates]
    else:
        found = _trusted(_pkcs12(data, password))
    if not found:
        raise StoreError(
            "the truststore contains no certificate that Java would trust: create it with keytool -importcert instead of openssl pkcs12"
        )
    return found


class _Store(NamedTuple):
    """The contents of a PKCS12 store: a key, its certificate, the other certificates, and those of the other certificates that have a
    friendly name."""

    key: bytes | None
    own: bytes | None
    others: Sequence[bytes]
    named: Sequence[bytes]


def _trusted(store: _Store) -> list[bytes]:
    if store.own is None:
        return list(store.named)
    named = list(store.named)
    for certificate in _chain(store.own, store.others)[1:]:
        if certificate in named:  # a first occurrence belongs to the key's chain, a second one is a separate entry
            named.remove(certificate)
    return [store.own, *named]


def _pkcs12(data: bytes, password: str | None) -> _Store:
    if data.startswith(JCEKS_MAGIC):
        raise StoreError("a keystore of type JCEKS is not supported: convert it to PKCS12 with keytool -importkeystore")
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StoreError(f"keystore password was incorrect, or the keystore's type is unknown: {error}") from error
    key = None if store.key is None else store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    own = None if store.cert is None else store.cert.certificate.public_bytes(Encoding.DER)
    others = [(each.friendly_name, each.certificate.public_bytes(Encoding.DER)) for each in store.additional_certs]
    return _Store(key, own, [der for _, der in others], [der for name, der in others if name])


def _chain(own: bytes, others: Sequence[bytes]) -> list[bytes]:
    """Return the certificate `own` followed by its chain of issuers, as far as `others` has them."""
    by_subject = {_certificate(each).subject.public_bytes(): each for each in others}
    chain = [own]
    while True:
        last = _certificate(chain[-1])
        issuer = by_subject.pop(last.issuer.public_bytes(), None)
        if issuer is None:
            return chain
        chain.append(issuer)


def _certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise StoreError("a certificate cannot be parsed") from error
