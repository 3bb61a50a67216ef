"""The client side of GSSAPI without a KDC. With a KDC and the broker side: tests/unit/broker/net/test_kerberos_authentication.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.login import NotTrusted

pytest.importorskip("gssapi", reason="python-gssapi is not installed ('make kerberos')")


def test_missing_ticket_is_reported_without_contacting_the_kdc(tmp_path: Path) -> None:
    from ottla.protocol.kerberos import Initiator

    with pytest.raises(NotTrusted, match="No credentials cache found"):
        next(Initiator("kafka", cache=f"FILE:{tmp_path / 'none'}").tokens("localhost"))


def test_missing_keytab_raises_no_key(tmp_path: Path) -> None:
    from ottla.protocol.kerberos import Initiator, NoKey

    with pytest.raises(NoKey, match="none"):
        Initiator("kafka", "ann@HERE", keytab=str(tmp_path / "none")).check_key()


def test_error_text_is_one_line_of_limited_length() -> None:
    from ottla.protocol.kerberos import error_text

    assert error_text(OSError("one\nINFO broker: all is well\x1b[2K")) == "one INFO broker: all is well?[2K"
    assert len(error_text(OSError("x" * 100_000))) == 500
