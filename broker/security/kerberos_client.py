"""The client's half of SASL GSSAPI (RFC 4752), for nodes that dial others: with a key of a keytab, by python-gssapi over MIT Kerberos.

Rules that hold inside:
- Tokens are made on a thread: to have a ticket the library asks a KDC, and waits for it. Tickets are kept in this process's memory and are
  asked for anew in time.
- Who is dialled proves who it is, too, and no protection of what follows is asked for.

Source: JDK com.sun.security.sasl.gsskerb.GssKrb5Client; KAFKA SaslClientAuthenticator.
"""

from __future__ import annotations

from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from ottla.broker.security.kerberos import NoKey
from ottla.protocol.login import NotTrusted, Tokens

_NO_PROTECTION: Final = 1
_CHOICE: Final = bytes((_NO_PROTECTION, 0, 0, 0))


class Initiator:
    """Who dials as a principal, by its key in a keytab (None: the machine's for clients), the `service` of other hosts."""

    def __init__(self, principal: str, keytab: str | None, service: str) -> None:
        """Raises NoKey."""
        self._principal, self._service = principal, service
        self._store = {b"ccache": f"MEMORY:ottla {principal}".encode()}
        if keytab is not None:
            self._store[b"client_keytab"] = keytab.encode()
        try:
            self._credentials()
        except GSSError as error:
            raise NoKey(str(error)) from error

    def tokens(self, host: str) -> Tokens:
        """Those of one log-in at a host. Each may wait for a KDC."""
        try:
            yield from self._tokens(host)
        except GSSError as error:
            raise NotTrusted(str(error)) from error

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
        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store)
