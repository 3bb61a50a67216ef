"""The client's half of SASL GSSAPI (RFC 4752): with a key of a keytab, or with tickets that somebody got, by python-gssapi over MIT
Kerberos. Imported only where somebody comes in so.

Rules that hold inside:
- To have a ticket the library asks a KDC, and waits for it: for the first token of a log-in, and not before. Those that it gets with a key
  are kept in this process's memory, and it asks for new ones in time.
- Who is reached proves who it is, too, and no protection of what follows is asked for.
- A text for the log is one line: a KDC can be made to say anything by who stands in between.

Source: JDK com.sun.security.sasl.gsskerb.GssKrb5Client; KAFKA SaslClientAuthenticator.
"""

from __future__ import annotations

from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from ottla.protocol.login import NotTrusted, Tokens

_NO_PROTECTION: Final = 1
_CHOICE: Final = bytes((_NO_PROTECTION, 0, 0, 0))
_TOLD_CHARS: Final = 500


class NoKey(ValueError):
    """The keytab has no key of the principal, or cannot be read."""


class Initiator:
    """Who comes in, as `principal`, at the `service` of other hosts: by its key in a `keytab`, or by the tickets in a `cache`; by default
    it is this user's (kinit)."""

    def __init__(self, service: str, principal: str | None = None, *, keytab: str | None = None, cache: str | None = None) -> None:
        self._service, self._principal, self._keytab = service, principal, keytab
        self._store: dict[bytes, bytes] | None = None
        if keytab is not None:
            self._store = {b"ccache": f"MEMORY:ottla {principal}".encode(), b"client_keytab": keytab.encode()}
        elif cache is not None:
            self._store = {b"ccache": cache.encode()}

    def check_key(self) -> None:
        """Whether the keytab has a key of the principal; no KDC is asked whether it is the right one. Raises NoKey."""
        try:
            if self._keytab is None:
                self._credentials()
            else:
                store = {b"keytab": self._keytab.encode()}
                gssapi.Credentials(name=self._name(), usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
        except GSSError as error:
            raise NoKey(told(error)) from error

    def tokens(self, host: str) -> Tokens:
        """Those of one log-in at a host. The first may wait for a KDC."""
        try:
            yield from self._tokens(host)
        except GSSError as error:
            raise NotTrusted(told(error)) from error

    def _tokens(self, host: str) -> Tokens:
        name = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
        mutual = gssapi.RequirementFlag.mutual_authentication
        context: Any = None
        said: bytes | None = None
        while True:
            made = raw.init_sec_context(
                name, creds=self._credentials(), context=context, mech=gssapi.MechType.kerberos, flags=[mutual], input_token=said
            )
            context = made.context
            said = yield made.token or b""
            if not made.more_steps:
                break
        if mutual not in made.flags:
            raise NotTrusted("it does not prove who it is")
        offer = raw.unwrap(context, said).message
        if not offer or not offer[0] & _NO_PROTECTION:
            raise NotTrusted("it asks for protection of what follows")
        yield bytes(raw.wrap(context, _CHOICE, confidential=False).message)

    def _credentials(self) -> Any:
        return gssapi.Credentials(name=self._name(), usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store)

    def _name(self) -> Any:
        return None if self._principal is None else gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)


def told(error: Exception) -> str:
    """What the library says of an error, in one line."""
    text = " ".join(str(error).split())
    return "".join(char if char.isprintable() else "?" for char in text[:_TOLD_CHARS])
