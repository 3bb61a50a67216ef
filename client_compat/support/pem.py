"""Keys and certificates in a format that brokers and clients of every kind can read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


def write_key_and_chain(path: Path, issued: trustme.LeafCert) -> Path:
    """Write one file with the key, as PKCS#8 (the only format that Java reads), and its certificates, its own first."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return path
