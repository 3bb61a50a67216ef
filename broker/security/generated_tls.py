"""Generates a certificate authority and a server certificate for development and test brokers. They are made on demand and stored in files.

Invariants:
* The authority's private key is discarded after it has signed this one certificate.
* Only the owner can read the file with the server's key. Both files are replaced 30 days before they expire, or if the host names change.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY: Final = timedelta(days=365)
_RENEWED_BEFORE: Final = timedelta(days=30)


class GeneratedTls(NamedTuple):
    """Two PEM files: the authority's certificate, which clients trust, and the server's key with its certificate."""

    ca: Path
    server: Path


def generated_tls(directory: Path, names: Sequence[str], now_ms: int) -> GeneratedTls:
    """Return the two generated PEM files in `directory`, for a server with these host names and addresses. If they do not exist, are about
    to expire at `now_ms` or have other names, make new ones. Raises OSError if these cannot be written."""
    files = GeneratedTls(directory / "ca.pem", directory / "server.pem")
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if not _is_good(files, names, now):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority, server = _made(names, now)
        _write(files.server, server)
        _write(files.ca, authority)
    return files


def _is_good(files: GeneratedTls, names: Sequence[str], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(files.server.read_bytes())
        files.ca.read_bytes()
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    return certificate.not_valid_after_utc - now > _RENEWED_BEFORE and list(known) == list(map(_name, names))


def _made(names: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """Generate a certificate authority and a server certificate for these host names. Return the authority's certificate, and the server's
    key with its certificate, both as PEM."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Ottla's own certificate authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])

    def certificate(of: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(of).issuer_name(issuer).public_key(key).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + _VALIDITY)
        own, from_authority = x509.SubjectKeyIdentifier.from_public_key(key), authority_key.public_key()
        builder = builder.add_extension(own, critical=False)
        return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(from_authority), critical=False)

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    authority = (
        certificate(issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority_key, SHA256())
    )
    server = (
        certificate(subject, server_key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(list(map(_name, names))), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, SHA256())
    )
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return authority.public_bytes(Encoding.PEM), key + server.public_bytes(Encoding.PEM)


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.tmp")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 # pathlib takes no mode
        file.write(data)
    partial.replace(path)
