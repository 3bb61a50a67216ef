"""Reading keys and certificates from PEM, PKCS12 and Java keystores that OpenSSL and keytool made."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.settings_load import load
from ottla.broker.security.java_keystore import read_java_keystore
from ottla.broker.security.pem import StoreError
from ottla.broker.security.stores import KeyMaterial, key_material, read_store, trust_anchors
from tests.support.certificates import KEYTOOL, PASSWORD, Certificates

needs_keytool = pytest.mark.skipif(KEYTOOL is None, reason="needs a JDK's keytool")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def security(**given: str | Path) -> ListenerSecurity:
    named = {f"ssl.{name.replace('_', '.')}": str(text) for name, text in given.items()}
    return ListenerSecurity(load(named, {}, None).settings, "X")


def material(**given: str | Path) -> KeyMaterial:
    found = key_material(security(**given), read_store)
    assert found is not None
    return found


def anchors(**given: str | Path) -> list[bytes]:
    return list(trust_anchors(security(**given), read_store) or [])


def fits(found: KeyMaterial) -> bool:
    key = load_der_private_key(found.key, None).public_key()
    return key == load_der_x509_certificate(found.chain[0]).public_key()


def pem_key(file: Path, password: str) -> str:
    key = load_pem_private_key(file.read_bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()


def test_a_pem_file_has_the_key_and_its_chain(made: Certificates) -> None:
    found = material(keystore_type="PEM", keystore_location=made.server)
    assert fits(found)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl encrypts keys with any number of iterations")
@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        (("-iter", "600000"), True),
        (("-iter", "1000001"), False),
        (("-scrypt",), False),
        (("-v1", "PBE-SHA1-3DES", "-iter", "1000001"), False),
    ],
)
def test_an_encrypted_key_is_opened_unless_it_takes_long(made: Certificates, options: tuple[str, ...], accepted: bool) -> None:
    command = ["openssl", "pkcs8", "-topk8", "-in", str(made.server), "-passout", "pass:a b", *options]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    given = {"keystore_type": "PEM", "keystore_certificate_chain": made.server.read_text(), "keystore_key": key, "key_password": "a b"}
    if accepted:
        assert fits(material(**given))
        return
    with pytest.raises(StoreError, match="encrypted with scrypt, or with more than 1000000 iterations"):
        material(**given)


def test_pem_in_a_setting_may_have_spaces_for_newlines_and_an_encrypted_key(made: Certificates) -> None:
    inline = {"keystore_type": "PEM", "keystore_certificate_chain": made.server.read_text().replace("\n", " ")}
    plain = material(keystore_key=made.server.read_text(), **inline)
    locked = material(keystore_key=pem_key(made.server, "a b").replace("\n", " "), key_password="a b", **inline)
    assert fits(plain)
    assert plain == locked


def test_pkcs12_store_is_detected_for_any_configured_type(made: Certificates) -> None:
    for kind in ("PKCS12", "JKS"):
        found = material(keystore_type=kind, keystore_location=made.pkcs12(made.server), keystore_password=PASSWORD)
        assert fits(found)
        assert found == material(keystore_type="PEM", keystore_location=made.server)


@needs_keytool
def test_a_java_keystore_is_detected_whatever_its_configured_type_and_its_key_may_have_its_own_password(made: Certificates) -> None:
    for kind, key_password in (("JKS", PASSWORD), ("PKCS12", "another one")):
        own = {} if key_password == PASSWORD else {"key_password": key_password}
        store = made.jks(made.of(f"of-{kind}", "localhost"), key_password)
        found = material(keystore_type=kind, keystore_location=store, keystore_password=PASSWORD, **own)
        assert fits(found)


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_truststore_of_keytool_is_read(made: Certificates, kind: str) -> None:
    ca = load_pem_x509_certificate(made.ca.read_bytes()).public_bytes(Encoding.DER)
    assert anchors(truststore_location=made.truststore(kind), truststore_password=PASSWORD) == [ca]


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_only_the_keys_own_certificate_is_trusted_from_a_key_entry(made: Certificates, kind: str) -> None:
    """Java's TrustManagerFactory does the same: if the key's whole chain were trusted, every certificate of its authority would be
    accepted."""
    ca = load_pem_x509_certificate(made.ca.read_bytes()).public_bytes(Encoding.DER)
    chain = made.of(f"chain-{kind}", "localhost")
    chain.write_bytes(chain.read_bytes() + made.ca.read_bytes())
    store = made.of_keytool(chain, kind)
    own = material(keystore_type="PEM", keystore_location=chain).chain[0]
    assert anchors(truststore_location=store, truststore_password=PASSWORD) == [own]
    assert anchors(truststore_location=made.pkcs12(chain), truststore_password=PASSWORD) == [own]
    made.trust(store, kind)
    assert sorted(anchors(truststore_location=store, truststore_password=PASSWORD)) == sorted([own, ca])


def test_certificates_in_a_truststore_made_by_openssl_are_not_trusted(made: Certificates) -> None:
    with pytest.raises(StoreError, match="no certificate that Java would trust"):
        anchors(truststore_location=made.openssl_truststore(), truststore_password=PASSWORD)


@needs_keytool
def test_a_java_truststore_opens_without_a_password_and_its_integrity_is_checked_with_one(made: Certificates) -> None:
    store = made.truststore("JKS")
    assert len(anchors(truststore_location=store)) == 1
    with pytest.raises(StoreError, match="Keystore was tampered with, or password was incorrect"):
        anchors(truststore_location=store, truststore_password="nope")


@needs_keytool
def test_a_java_keystore_that_is_damaged_anywhere_is_rejected(made: Certificates) -> None:
    data = made.jks(made.of("damaged", "localhost")).read_bytes()
    for at in range(0, len(data), 97):
        with pytest.raises(StoreError):
            read_java_keystore(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], PASSWORD)
    for size in range(0, len(data), 101):  # without a password the integrity is not checked, but every length is
        with pytest.raises((StoreError, ValueError)):
            read_java_keystore(data[:size], None, open_keys=False)


def test_a_java_key_that_ends_within_its_length_field_is_truncated() -> None:
    protected = bytes.fromhex("060a2b060104012a0211010104")
    entry = struct.pack(">iH", 1, 0) + bytes(8) + struct.pack(">i", len(protected)) + protected + struct.pack(">i", 0)
    with pytest.raises(StoreError, match="truncated"):
        read_java_keystore(b"\xfe\xed\xfe\xed" + struct.pack(">ii", 2, 1) + entry, None, "key pass")


def test_missing_stores_return_none(made: Certificates) -> None:
    assert key_material(security(), Path.read_bytes) is None  # type: ignore[arg-type] # nothing is read
    assert trust_anchors(security(), Path.read_bytes) is None  # type: ignore[arg-type] # nothing is read


def written(made: Certificates, kind: str) -> Path:
    """Write a PEM file with a key of an unsupported `kind` (type or format), and the authority's certificate."""
    key = ed25519.Ed25519PrivateKey.generate() if kind == "Ed25519" else ec.generate_private_key(ec.SECP256R1())
    form = PrivateFormat.TraditionalOpenSSL if kind == "SEC1" else PrivateFormat.PKCS8
    file = made.ca.with_name(f"{kind}.pem")
    file.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()) + made.ca.read_bytes())
    return file


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"keystore_key": "x"}, "SSL private key can be specified only for PEM, but key store type is JKS."),
        ({"keystore_key": "x", "keystore_type": "PEM"}, "SSL private key is specified, but certificate chain is not specified."),
        (
            {"keystore_certificate_chain": "x", "keystore_type": "PEM"},
            "SSL certificate chain is specified, but private key is not specified",
        ),
        ({"keystore_password": "x"}, "SSL key store is not specified, but key store password is specified."),
        ({"keystore_location": "P12"}, "SSL key store is specified, but key store password is not specified."),
        (
            {"keystore_location": "PEM", "keystore_type": "PEM", "keystore_password": "x"},
            "SSL key store password cannot be specified with PEM",
        ),
        ({"keystore_location": "PEM", "keystore_password": "x"}, "keystore password was incorrect, or the keystore's type is unknown"),
        ({"keystore_location": "P12", "keystore_password": "nope"}, "keystore password was incorrect"),
        (
            {"keystore_location": "PEM", "keystore_type": "PEM", "key_password": "x"},
            "Private key could not be loaded: it has a password and",
        ),
        ({"keystore_location": "CA", "keystore_type": "PEM"}, "No matching PRIVATE KEY entries in PEM file"),
        ({"keystore_location": "SEC1", "keystore_type": "PEM"}, r"Private key could not be loaded: it is not PKCS#8"),
        ({"keystore_location": "Ed25519", "keystore_type": "PEM"}, "Private key could not be loaded: only RSA, DSA and EC are supported"),
        ({"truststore_certificates": "x"}, "SSL trust store certs can be specified only for PEM, but trust store type is JKS."),
        ({"truststore_password": "x"}, "SSL trust store is not specified, but trust store password is specified."),
        (
            {"truststore_location": "CA", "truststore_type": "PEM", "truststore_password": "x"},
            "SSL trust store password cannot be specified",
        ),
    ],
)
def test_settings_that_kafka_rejects_are_rejected_without_secrets_in_the_message(
    made: Certificates, given: dict[str, str], words: str
) -> None:
    files = {"PEM": lambda: made.server, "CA": lambda: made.ca, "P12": lambda: made.pkcs12(made.server)}
    files |= {kind: lambda kind=kind: written(made, kind) for kind in ("SEC1", "Ed25519")}  # type: ignore[misc] # bound at once
    filled: dict[str, str | Path] = {name: files[text]() if name.endswith("location") else text for name, text in given.items()}
    with pytest.raises(StoreError, match=words) as caught:
        material(**filled) if any(name.startswith("key") for name in given) else anchors(**filled)
    assert "nope" not in str(caught.value)
