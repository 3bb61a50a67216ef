"""Keys and certificates for tests, in every file format that users have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

HOST = "127.0.0.1"
PASSWORD = "store pass"
KEYTOOL = shutil.which("keytool")


class Certificates:
    """A certificate authority with a server and a client certificate. `of` issues further ones. Each file contains the key in PKCS#8 and
    the certificate chain."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self.server = self.of("server", HOST, "localhost")
        self.client = self.of("client", "ann@example.org", common_name="ann")

    def of(self, file: str, *names: str, common_name: str | None = None, unit: str | None = None, rsa: bool = False) -> Path:
        """Issue a certificate with an elliptic-curve key, or with `rsa` an RSA key; return its file. Without `unit`, the subject is
        unique."""
        kind = trustme.KeyType.RSA if rsa else trustme.KeyType.ECDSA
        issued = self._authority.issue_cert(
            *names, common_name=common_name, organization_name="Ottla's, tests", organization_unit_name=unit, key_type=kind
        )
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self._directory / f"{file}.pem"
        path.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        return path

    def weak(self, file: str, digest: str, bits: int = 2048) -> Path:
        """Issue an RSA server certificate signed with this digest by a new authority; return its file. The authority's certificate is
        written to `<file>-ca.pem`."""
        made = {part: str(self._directory / f"{file}-{part}.pem") for part in ("ca", "ca-key", "key", "request", "leaf")}
        self_signed = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=weak ca")
        _run("openssl", "req", *self_signed, "-keyout", made["ca-key"], "-out", made["ca"])
        _run(
            "openssl", "req", "-newkey", f"rsa:{bits}", "-nodes", "-keyout", made["key"], "-out", made["request"], "-subj", "/CN=localhost"
        )
        issuer = ("-CA", made["ca"], "-CAkey", made["ca-key"], "-CAcreateserial", "-days", "9")
        _run("openssl", "x509", "-req", "-in", made["request"], *issuer, f"-{digest}", "-out", made["leaf"])
        path = self._directory / f"{file}.pem"
        path.write_bytes(b"".join(Path(made[part]).read_bytes() for part in ("key", "leaf", "ca")))
        return path

    def pem_settings(self, prefix: str = "") -> dict[str, str]:
        """Return the settings of a server that accepts clients with this authority's certificates."""
        found = {
            "keystore.type": "PEM",
            "keystore.location": str(self.server),
            "truststore.type": "PEM",
            "truststore.location": str(self.ca),
        }
        return {f"{prefix}ssl.{name}": text for name, text in found.items()}

    def pkcs12(self, file: Path) -> Path:
        """Write the server's key and chain to a PKCS#12 store with OpenSSL; return its path."""
        path = self._directory / f"{file.stem}.p12"
        _run("openssl", "pkcs12", "-export", "-in", str(file), "-out", str(path), "-passout", f"pass:{PASSWORD}", "-name", "server")
        return path

    def jks(self, file: Path, key_password: str = PASSWORD) -> Path:
        """Write the server's key and chain to a JKS store; return its path."""
        return self.of_keytool(file, "JKS", key_password)

    def of_keytool(self, file: Path, kind: str, key_password: str = PASSWORD) -> Path:
        """Write the server's key and chain to a store of type `kind` with keytool; return its path."""
        path = self._directory / f"{file.stem}.{kind.lower()}"
        passwords = ("-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, "-destkeypass", key_password)
        stores = ("-srckeystore", str(self.pkcs12(file)), "-destkeystore", str(path), "-deststoretype", kind)
        _run("keytool", "-importkeystore", "-noprompt", "-srcalias", "server", *stores, *passwords)
        return path

    def truststore(self, kind: str) -> Path:
        """Write the authority's certificate to a store of type `kind` with keytool; return its path."""
        path = self._directory / f"trust.{kind.lower()}"
        path.unlink(missing_ok=True)
        self.trust(path, kind)
        return path

    def trust(self, store: Path, kind: str) -> None:
        """Add the authority's certificate to a Java key store as a trusted certificate."""
        where = ("-keystore", str(store), "-storetype", kind, "-storepass", PASSWORD)
        _run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(self.ca), *where)

    def openssl_truststore(self) -> Path:
        """Write the authority's certificate to a store with OpenSSL; return its path."""
        path = self._directory / "openssl.p12"
        _run("openssl", "pkcs12", "-export", "-nokeys", "-in", str(self.ca), "-out", str(path), "-passout", f"pass:{PASSWORD}")
        return path


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
