"""The OpenSSL context of a TLS listener, made from Java's names of versions and cipher suites. Imported only for a listener with TLS.

Invariants:
* The broker does not start with cipher suites or versions that OpenSSL cannot enforce, so that no connection is weaker than configured.
* Every certificate in a truststore is a trust anchor, as in Java, even if it is not a certificate authority's.
* The private key is not written to disk: if the system supports it, OpenSSL reads it from a file in memory.

Source: KAFKA DefaultSslEngineFactory; suite names are IANA's, as in JSSE.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import Certificate, ExtensionNotFound, GeneralName, SubjectAlternativeName, load_der_x509_certificate

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.security_keys import RELOADABLE
from ottla.broker.security import pem
from ottla.broker.security.java_dn import java_name
from ottla.broker.security.pem import StoreError
from ottla.broker.security.principal_rules import PrincipalRules
from ottla.broker.security.stores import KeyMaterial, key_material, trust_anchors

logger = logging.getLogger(__name__)

ANONYMOUS_NAME: Final = "ANONYMOUS"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The TLS versions that can be enabled. Java disables older versions, too, whatever ssl.enabled.protocols says."""
_OF_1_3: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_EXCHANGES: Final = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "DHE_DSS": "DHE-DSS-", "RSA": ""}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}
_GROUP: Final = b"""-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
"""The standard 2048-bit Diffie-Hellman group ffdhe2048 (RFC 7919). Without it OpenSSL negotiates no cipher suite with DHE."""
_WEAK: Final = frozenset({"CA_MD_TOO_WEAK", "EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL"})
"""OpenSSL's error reasons for rejecting a certificate chain because of its security level. Level 2, the default, requires RSA keys of 2048
bits; level 1 forbids SHA-1."""
_RSA_BITS_MIN: Final = 1024
_EC_BITS_MIN: Final = 224
_DIGESTS_REFUSED: Final = frozenset({"md2", "md5"})
_SPARE_MAX: Final = 32
_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class _Handshake(ssl.SSLObject):
    """A TLS connection that sends the TLS alert to the client when the handshake fails. asyncio's TLS would drop the alert: Java's client
    would then see a broken connection and retry forever, whereas an alert makes it raise SslAuthenticationException."""

    outgoing: ssl.MemoryBIO
    plain: asyncio.Transport | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if (alert := self.outgoing.read()) and self.plain is not None:
                with suppress(OSError):
                    os.write(self.plain.get_extra_info("socket").fileno(), alert)
            raise


class HandshakeContext(ssl.SSLContext):
    """The TLS context of one handshake. It makes connections from the listener's `shared` context. If the handshake fails, the TLS alert is
    written to the TCP transport `plain`."""

    shared: ssl.SSLContext
    plain: asyncio.Transport | None = None

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = self.shared.wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(made, _Handshake)
        made.outgoing, made.plain = outgoing, self.plain
        return made


class Stores(NamedTuple):
    """The configuration from which a listener's TLS context was made: the security settings, the server's own certificate (DER), whether a
    truststore is configured, and the modification times of the keystore and truststore files in ns (None: no file)."""

    security: ListenerSecurity
    certificate: bytes
    has_trust: bool
    written: Sequence[int | None]


class ListenerTls:
    """The TLS of one listener: its context, and the rules that map client certificates to principals. The constructor raises StoreError,
    OSError or ValueError for unusable settings or files."""

    def __init__(self, security: ListenerSecurity, client_auth: str, read: Callable[[str], bytes]) -> None:
        self._rules = PrincipalRules(str(security.value("ssl.principal.mapping.rules")))
        self._client_auth, self._read = client_auth, read
        self.context, self._stores = self._made(security)
        self._spare: list[HandshakeContext] = []

    def has_stores_of(self, security: ListenerSecurity) -> bool:
        """Return whether `security` has the same keystore and truststore settings as the present TLS context."""
        before = self._stores.security
        return all(before.value(name) == security.value(name) for name in RELOADABLE)

    def is_stale(self) -> bool:
        """Return whether a keystore or truststore file was modified since it was read."""
        now = files_written(self._stores.security)
        return any(each is not None and each != before for each, before in zip(now, self._stores.written, strict=True))

    def renewed(self, security: ListenerSecurity) -> tuple[ssl.SSLContext, Stores]:
        """Return a new TLS context for changed keystore and truststore settings; the caller passes it to `take`. Raises StoreError, OSError
        or ValueError for unusable settings or files, and StoreError for a change that Kafka does not allow on a running listener
        (SslFactory)."""
        before, (context, stores) = self._stores, self._made(security)
        if not before.has_trust and stores.has_trust:
            raise StoreError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
        if stores.has_trust:
            trust_anchors(security, self._read)
        check_successor(
            stores.certificate,
            before.certificate,
            may_rename=bool(security.value("ssl.allow.dn.changes")),
            may_lose_names=bool(security.value("ssl.allow.san.changes")),
        )
        return context, stores

    def take(self, renewed: tuple[ssl.SSLContext, Stores]) -> None:
        """Use the TLS context that `renewed` has returned for every later handshake. Existing connections are not affected."""
        self.context, self._stores = renewed

    @contextmanager
    def handshake(self, plain: asyncio.Transport) -> Iterator[ssl.SSLContext]:
        """Yield a TLS context for one handshake over the TCP transport `plain`. Contexts are reused, because making one takes as long as a
        TLS signature."""
        context = self._spare.pop() if self._spare else HandshakeContext(ssl.PROTOCOL_TLS_SERVER)
        context.shared, context.plain = self.context, plain
        try:
            yield context
        finally:
            context.plain = None
            if len(self._spare) < _SPARE_MAX:
                self._spare.append(context)

    def principal_name(self, certificate: bytes | None) -> str:
        """Return the principal name for a client's certificate (DER), or ANONYMOUS if the client has none (None). Raises ValueError if no
        mapping rule matches the certificate's subject name."""
        if certificate is None:
            return ANONYMOUS_NAME
        return self._rules.name_for(java_name(load_der_x509_certificate(certificate).subject.public_bytes()))

    def _made(self, security: ListenerSecurity) -> tuple[ssl.SSLContext, Stores]:
        written = files_written(security)  # before the files are read, so that a change during the read is noticed later
        context = restrict(security, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        context.sslobject_class = _Handshake
        material = key_material(security, self._read)
        if material is None:
            raise StoreError("neither ssl.keystore.location nor ssl.keystore.key is set: a listener with TLS needs a key and a certificate")
        use_certificate(context, material)
        if self._client_auth != "none":
            trust(context, trust_anchors(security, self._read))
            context.verify_mode = _AUTH[self._client_auth]
        has_trust = any(security.text(f"ssl.truststore.{name}") is not None for name in ("location", "certificates"))
        return context, Stores(security, material.chain[0], has_trust, written)


def check_successor(new: bytes, old: bytes, *, may_rename: bool, may_lose_names: bool) -> None:
    """Check a listener's new certificate (DER) against the one that it replaces, as Kafka's SslFactory does.

    Raises StoreError if the subject name differs, which only `may_rename` permits, or if alternative names are missing, which only
    `may_lose_names` permits.
    """
    one, other = load_der_x509_certificate(new), load_der_x509_certificate(old)
    name, before = (java_name(each.subject.public_bytes()) for each in (one, other))
    if not may_rename and " ".join(name.lower().split()) != " ".join(before.lower().split()):
        raise StoreError(f"Keystore DistinguishedName does not match: existing={before}, new={name}")
    if not may_lose_names and (lost := _names(other) - _names(one)):
        raise StoreError(f"Keystore SubjectAltNames do not match: {len(lost)} of the existing are not in the new")


def _names(certificate: Certificate) -> frozenset[GeneralName]:
    try:
        return frozenset(certificate.extensions.get_extension_for_class(SubjectAlternativeName).value)
    except ExtensionNotFound:
        return frozenset()


def files_written(security: ListenerSecurity) -> list[int | None]:
    """Return the modification times of the keystore file and the truststore file in nanoseconds; None for a file that is not configured or
    does not exist."""
    found: list[int | None] = []
    for store in ("keystore", "truststore"):
        path = security.text(f"ssl.{store}.location")
        try:
            found.append(None if path is None else Path(path).stat().st_mtime_ns)
        except OSError:
            found.append(None)
    return found


def restrict(security: ListenerSecurity, context: ssl.SSLContext) -> ssl.SSLContext:
    """Apply the TLS versions and cipher suites that the listener's settings allow to `context`, and return it. Raises StoreError if OpenSSL
    does not support them or no version is left."""
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    suites = security.items("ssl.cipher.suites")
    context.minimum_version, context.maximum_version = _versions(security.items("ssl.enabled.protocols"), suites)
    if older := [name for name in suites if name not in _OF_1_3]:
        context.set_ciphers(":".join(map(openssl_name, older)))
        if any(name.startswith("TLS_DHE_") for name in older):
            with _file_of(_GROUP) as path:
                context.load_dh_params(path)
    return context


def trust(context: ssl.SSLContext, anchors: Sequence[bytes] | None) -> None:
    """Make `context` trust these certificates (DER). If `anchors` is None, because no truststore is configured, trust the system's
    certificates."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if anchors is None:
        context.set_default_verify_paths()
    else:
        context.load_verify_locations(cadata=b"".join(anchors))


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 cipher suite, given its IANA name. Raises StoreError if OpenSSL does not support the suite."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not suite.startswith("TLS_") or not with_ or exchange not in _EXCHANGES or cipher not in _CIPHERS:
        raise StoreError(f"ssl.cipher.suites: {suite} is not supported")
    return _EXCHANGES[exchange] + _CIPHERS[cipher]


def _versions(enabled: Sequence[str], suites: Sequence[str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Return the oldest and the newest TLS version in `enabled` for which `suites` has a cipher suite; if `suites` is empty, all suites are
    allowed. Raises StoreError if no version is left."""
    names = [name for name in _VERSIONS if name in enabled]
    if suites:
        newest = set(suites) & _OF_1_3
        if "TLSv1.3" in names and newest and newest != _OF_1_3:
            raise StoreError(f"ssl.cipher.suites: OpenSSL cannot offer {', '.join(sorted(_OF_1_3))} separately: name all three or none")
        names = [name for name in names if (newest if name == "TLSv1.3" else set(suites) - _OF_1_3)]
    if not names:
        raise StoreError(f"ssl.enabled.protocols={','.join(enabled)} enables no supported version: supported are {', '.join(_VERSIONS)}")
    return _VERSIONS[names[0]], _VERSIONS[names[-1]]


def use_certificate(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """Set the context's private key and certificates. Certificates that OpenSSL considers weak are accepted, with a warning, if the JVM
    accepts them. Raises StoreError if they are not accepted."""
    text = pem.block("PRIVATE KEY", material.key) + b"".join(pem.block("CERTIFICATE", each) for each in material.chain)
    level = context.security_level
    while True:
        with _file_of(text) as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                if error.reason not in _WEAK or not level:
                    raise StoreError(f"OpenSSL rejects the certificate or its key: {error.reason or error}") from error
            else:
                return
        if refused := [why for each in material.chain if (why := _weaker_than_java(load_der_x509_certificate(each)))]:
            raise StoreError(f"the certificate is too weak, and the JVM would reject it, too ({refused[0]}): renew it")
        level -= 1
        logger.warning("A certificate or its signature is weak: OpenSSL's security level is lowered to %d; renew the certificate", level)
        # Keep the current TLS 1.2 suites: a cipher list that names only the level would select OpenSSL's default suites.
        names = [suite["name"] for suite in context.get_ciphers() if suite["name"] not in _OF_1_3]
        context.set_ciphers(f"{':'.join(names)}:@SECLEVEL={level}")


def _weaker_than_java(certificate: Certificate) -> str | None:
    """Return why the JVM rejects a certificate (jdk.tls.disabledAlgorithms, jdk.certpath.disabledAlgorithms), or None."""
    key, digest = certificate.public_key(), certificate.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS_MIN:
        return f"its RSA key has {key.key_size} bits"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size < _EC_BITS_MIN:
        return f"its EC key has {key.key_size} bits"
    return f"it is signed with {digest.name}" if digest is not None and digest.name in _DIGESTS_REFUSED else None


@contextmanager
def _file_of(text: bytes) -> Iterator[str]:
    """Yield the path of a temporary file with this content, in memory if the system supports it. It is needed because OpenSSL's
    `load_cert_chain` reads only files."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(file, text)
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
        return
    with tempfile.NamedTemporaryFile(prefix="ottla-") as named:  # mode 0600
        named.write(text)
        named.flush()
        yield named.name
