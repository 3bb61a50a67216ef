"""The client side of SASL GSSAPI (RFC 4752), with a keytab or existing tickets, by python-gssapi over MIT Kerberos. It is imported only
when GSSAPI is used.

Rules:
- The library contacts a KDC, and waits for it, only for the first token of an authentication. Tickets from a keytab are kept in this
  process's memory and renewed in time.
- Mutual authentication is required. No security layer is negotiated for the connection.
- Error texts for the log are one line, because an attacker between client and KDC can influence the KDC's messages.

Sources: JDK com.sun.security.sasl.gsskerb.GssKrb5Client; KAFKA SaslClientAuthenticator.
"""

from __future__ import annotations

from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from ottla.protocol.login import NotTrusted, Tokens

_NO_PROTECTION: Final = 1
_CHOICE: Final = bytes((_NO_PROTECTION, 0, 0, 0))
_ERROR_TEXT_CHARS: Final = 500


class NoKey(ValueError):
    """The keytab has no key of the principal, or the keytab cannot be read."""


class Initiator:
    """A Kerberos client that authenticates as `principal` to `service` on other hosts, with a key in a `keytab` or tickets in a `cache`; by
    default with the current user's tickets (kinit)."""

    def __init__(self, service: str, principal: str | None = None, *, keytab: str | None = None, cache: str | None = None) -> None:
        self._service, self._principal, self._keytab = service, principal, keytab
        self._store: dict[bytes, bytes] | None = None
        if keytab is not None:
            self._store = {b"ccache": f"MEMORY:ottla {principal}".encode(), b"client_keytab": keytab.encode()}
        elif cache is not None:
            self._store = {b"ccache": cache.encode()}

    def check_key(self) -> None:
        """Check that the keytab has a key of the principal or, without a keytab, that there are tickets. Raises NoKey if not. The KDC is
        not asked whether the key is valid."""
        try:
            if self._keytab is None:
                self._credentials()
            else:
                store = {b"keytab": self._keytab.encode()}
                gssapi.Credentials(name=self._name(), usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
        except GSSError as error:
            raise NoKey(error_text(error)) from error

    def tokens(self, host: str) -> Tokens:
        """Generate the GSSAPI tokens that authenticate this client to the service on `host`. The first token may wait for a KDC. Raises
        NotTrusted if Kerberos fails or the server does not prove its identity."""
        try:
            yield from self._tokens(host)
        except GSSError as error:
            raise NotTrusted(error_text(error)) from error

    def _tokens(self, host: str) -> Tokens:
        name = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        mutual = gssapi.RequirementFlag.mutual_authentication
        context: Any = None
        challenge: bytes | None = None
        while True:
            made = raw.init_sec_context(
                name, creds=self._credentials(), context=context, mech=gssapi.MechType.kerberos, flags=[mutual], input_token=challenge
            )
            context = made.context
            challenge = yield made.token or b""
            if not made.more_steps:
                break
        if mutual not in made.flags:
            raise NotTrusted("the broker does not authenticate itself (no mutual authentication)")
        offer = raw.unwrap(context, challenge).message
        if not offer or not offer[0] & _NO_PROTECTION:
            raise NotTrusted("the broker requires a GSSAPI security layer, which is not supported")
        yield bytes(raw.wrap(context, _CHOICE, confidential=False).message)

    def _credentials(self) -> Any:
        return gssapi.Credentials(name=self._name(), usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store)

    def _name(self) -> Any:
        return None if self._principal is None else gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)


def error_text(error: Exception) -> str:
    """Return the message of an error that the Kerberos library raised, as one line of text for the log."""
    text = " ".join(str(error).split())
    return "".join(char if char.isprintable() else "?" for char in text[:_ERROR_TEXT_CHARS])
