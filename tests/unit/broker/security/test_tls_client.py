"""The stores of a node's own TLS connections. Their use on real connections is tested with the listeners (`net/test_store_changes.py`)."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.settings_load import load
from ottla.broker.security.tls_client import ClientTls
from tests.support.certificates import Certificates


def test_a_truststore_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    given = {"listeners": "S://127.0.0.1:0", "listener.security.protocol.map": "S:SSL", "ssl.keystore.type": "PEM"}
    given |= {"ssl.keystore.location": str(made.of("own", "localhost")), **made.pem_settings()}
    settings = load({**given, "log.dir": str(tmp_path / "data")}, {}, None).settings
    security = ListenerSecurity(settings, "S", {})

    def read_and_replace(path: str) -> bytes:
        contents = Path(path).read_bytes()
        written = Path(path).stat().st_mtime_ns
        os.utime(path, ns=(written, written + 1_000_000))
        return contents

    tls = ClientTls(security, read_and_replace)
    assert not tls.has_stores_of(security), "the contents may be the old ones"
    tls = ClientTls(security, lambda path: Path(path).read_bytes())
    assert tls.has_stores_of(security)
    tls.take(tls.renewed(security))
    assert tls.has_stores_of(security)
