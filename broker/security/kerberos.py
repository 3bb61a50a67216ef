"""SASL GSSAPI: authentication with a Kerberos ticket (RFC 4752). The tickets are processed by python-gssapi over MIT Kerberos.

Invariants:
* To accept a ticket the library reads the keytab and writes to the replay cache, both on this machine's disk; it contacts no other machine.
  So tickets are accepted on the event loop, where all file I/O runs.
* Only Kerberos 5 tokens with the header of RFC 2743 are accepted. A token of any other mechanism is rejected before the library reads it.
* After authentication the broker offers the client no security layer, as in Kafka. The authorization id that the client sends is ignored,
  as in Kafka.

Source: JDK com.sun.security.sasl.gsskerb.GssKrb5Server, which Kafka uses; KAFKA SaslServerAuthenticator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from ottla.broker.security.kerberos_names import ShortNames
from ottla.broker.security.mechanism import InvalidSaslMessage, SaslError
from ottla.protocol.kerberos import NoKey, error_text

_FRAMED: Final = b"\x60"
_NO_PROTECTION: Final = 1
_OFFER: Final = bytes((_NO_PROTECTION, 1, 0, 0))
"""The server's offer of security layers (RFC 4752): none. The last three bytes are the maximum message size that the JDK sends."""
_CHOICE_BYTES: Final = 4


def default_realm() -> str:
    """Return this machine's default realm from krb5.conf, or an empty string if there is none."""
    try:
        name = gssapi.Name("tmp", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).partition("@")[2]


class Acceptor:
    """The broker's own Kerberos credentials, with which it accepts clients' tickets. `principal` is the service principal,
    `kafka/host@REALM`; its key is in the file `keytab` (None: the machine's default keytab)."""

    def __init__(self, principal: str, keytab: str | None) -> None:
        """Load the key of the service principal from the keytab. Raises NoKey if the keytab lacks it."""
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            store = None if keytab is None else {b"keytab": keytab.encode()}
            self._credentials = gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store=store)
        except GSSError as error:
            raise NoKey(error_text(error)) from error

    def accept(self, context: Any, token: bytes) -> tuple[Any, bytes | None, str | None]:
        """Process one GSSAPI token of a client. `context` is the context that the call for the previous token returned, None for the first
        token. Return the context, the response token and, when it is known, the client's principal. Raises GSSError if the token is not
        accepted."""
        result = raw.accept_sec_context(token, acceptor_creds=self._credentials, context=context)
        who = None if result.more_steps else raw.display_name(result.initiator_name, name_type=False).name.decode("utf-8", "replace")
        return result.context, result.token, who


class Gssapi:
    """One client's authentication in progress with the SASL mechanism GSSAPI. If no rule maps the client's principal to a user name,
    authentication succeeds, but `user` is None and no request is served."""

    expires_ms = None
    by_token = False

    def __init__(self, acceptor: Acceptor, names: ShortNames, log_problem: Callable[[str], None]) -> None:
        self._acceptor, self._names, self._log_problem = acceptor, names, log_problem
        self._context: Any = None
        self._principal: str | None = None
        self._next = self._accept
        self.complete = False
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes | None:
        """Process the client's next token and return the response token.

        The first tokens contain the client's ticket. Then the client sends an empty token, and the response offers security layers. The
        last token is the client's choice of a security layer; it gets no response (None). Raises SaslError if authentication fails,
        InvalidSaslMessage for a malformed choice.
        """
        try:
            return self._next(token)
        except GSSError as error:
            raise SaslError(error_text(error)) from error

    def _accept(self, token: bytes) -> bytes | None:
        if not token.startswith(_FRAMED):
            raise SaslError("GSS initiate failed: not a Kerberos token")
        self._context, answer, self._principal = self._acceptor.accept(self._context, token)
        if self._principal is None:
            return answer
        self._next = self._offer
        return answer or self._offer(b"")

    def _offer(self, token: bytes) -> bytes | None:
        if token:
            raise SaslError("Handshake expecting no response data from client")
        self._next = self._choice
        return bytes(raw.wrap(self._context, _OFFER, confidential=False).message)

    def _choice(self, token: bytes) -> None:
        choice = raw.unwrap(self._context, token).message
        if not choice:
            raise InvalidSaslMessage("the client's choice of a security layer is empty")
        if not choice[0] & _NO_PROTECTION:
            raise SaslError(f"Client selected unsupported protection: {choice[0]}")
        if len(choice) < _CHOICE_BYTES:
            raise InvalidSaslMessage("the client's choice of a security layer is truncated")
        assert self._principal is not None
        try:
            self.user = self._names.of(self._principal)
        except ValueError as error:
            self._log_problem(f"Failed to set name for '{self._principal}' based on Kerberos authentication rules: {error}")
        self.complete = True
