"""SASL GSSAPI: a ticket of Kerberos says who the client is (RFC 4752). The tickets are the library's matter: python-gssapi over MIT
Kerberos.

Rules that hold inside:
- To accept a ticket the library reads the keytab and notes the ticket among those that were shown, both on this machine's disk; it asks
  nobody. It is done on the loop, as all that is read and written.
- One mechanism is taken, Kerberos 5 in the frame of RFC 2743; what else the library could read in a token is refused before it sees it.
- After the tickets the client is offered no protection of what follows, as Kafka offers none, and as with Kafka the name that it asks to
  act for is passed over.

Source: JDK com.sun.security.sasl.gsskerb.GssKrb5Server, which is Kafka's; KAFKA SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from ottla.broker.security.kerberos_names import ShortNames
from ottla.broker.security.mechanism import Broken, Failed
from ottla.protocol.kerberos import NoKey, told

_FRAMED: Final = b"\x60"
_NO_PROTECTION: Final = 1
_OFFER: Final = bytes((_NO_PROTECTION, 1, 0, 0))
"""And the most bytes that would be taken at once, if there were protection: what the JDK says."""
_CHOICE_BYTES: Final = 4


def default_realm() -> str:
    """This machine's, as krb5.conf says; empty where it does not."""
    try:
        name = gssapi.Name("tmp", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).partition("@")[2]


class Acceptor:
    """Who takes tickets for a principal, `kafka/host@REALM`, by its key in a keytab; None: the machine's."""

    def __init__(self, principal: str, keytab: str | None) -> None:
        """Raises NoKey."""
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            store = None if keytab is None else {b"keytab": keytab.encode()}
            self._credentials = gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
        except GSSError as error:
            raise NoKey(told(error)) from error

    def accept(self, context: Any, token: bytes) -> tuple[Any, bytes | None, str | None]:
        """The context, what to answer, and who the client is, once that is known. Raises GSSError."""
        result = raw.accept_sec_context(token, acceptor_creds=self._credentials, context=context)
        who = None if result.more_steps else raw.display_name(result.initiator_name, name_type=False).name.decode("utf-8", "replace")
        return result.context, result.token, who


class Gssapi:
    """One log-in. A client without a name that the rules make is let in, and then not served: `user` is None."""

    expires_ms = None
    by_token = False

    def __init__(self, acceptor: Acceptor, names: ShortNames, tell: Callable[[str], None]) -> None:
        self._acceptor, self._names, self._tell = acceptor, names, tell
        self._context: Any = None
        self._principal: str | None = None
        self._next = self._accept
        self.complete = False
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes | None:
        """Tickets, then what is offered, then what the client chose, to which nothing is said."""
        try:
            return self._next(token)
        except GSSError as error:
            raise Failed(told(error)) from error

    def _accept(self, token: bytes) -> bytes | None:
        if not token.startswith(_FRAMED):
            raise Failed("GSS initiate failed: no token of Kerberos")
        self._context, answer, self._principal = self._acceptor.accept(self._context, token)
        if self._principal is None:
            return answer
        self._next = self._offer
        return answer or self._offer(b"")

    def _offer(self, token: bytes) -> bytes | None:
        if token:
            raise Failed("Handshake expecting no response data from client")
        self._next = self._choice
        return bytes(raw.wrap(self._context, _OFFER, confidential=False).message)

    def _choice(self, token: bytes) -> None:
        choice = raw.unwrap(self._context, token).message
        if not choice:
            raise Broken("the client chose nothing")
        if not choice[0] & _NO_PROTECTION:
            raise Failed(f"Client selected unsupported protection: {choice[0]}")
        if len(choice) < _CHOICE_BYTES:
            raise Broken("the client's choice is cut")
        assert self._principal is not None
        try:
            self.user = self._names.of(self._principal)
        except ValueError as error:
            self._tell(f"Failed to set name for '{self._principal}' based on Kerberos authentication rules: {error}")
        self.complete = True
