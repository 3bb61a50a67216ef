"""Compare GSSAPI: valid and invalid Kerberos tickets to two brokers that share one keytab.

Rules:
- The client follows RFC 4752 on top of python-gssapi. It unwraps the broker's tokens, so that their random parts are not compared.
- After each successful log-in, the client sends one request whose response contains its principal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gssapi
from gssapi import raw
from gssapi.exceptions import GSSError

from client_compat.differential.normalise import Plain
from client_compat.differential.probe import Seen
from client_compat.support.brokers import HOST
from client_compat.support.kerberos import OTHER_SERVICE, SERVICE, Realm
from ottla.protocol.client import Client
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.k38_create_delegation_token import CreateDelegationTokenRequest

RULES = "RULE:[1:$1@$0](eve@.*)s/^e/x@/,RULE:[2:$1-$2](.*-admin)s/-.*$/.$0/g/L,RULE:[2:$1](gus)s/g(u)s/$1/U,DEFAULT"
_TIMEOUT_S = 10.0
_CHOICE = b"\x01\x00\x00\x00"
_MUTUAL = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.out_of_sequence_detection
_KERBEROS = bytes.fromhex("2a864886f712010202")
_SPNEGO = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")

Tokens = Generator[tuple[bytes, bool], bytes, None]
"""The tokens of one log-in, each with a flag for the last one; the broker's answers are sent into the generator."""


def settings(realm: Realm, listener: str) -> dict[str, str]:
    """Return the broker settings of the SASL GSSAPI listener `listener`, with the realm's keytab."""
    prefix = f"listener.name.{listener.lower()}."
    return {
        f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}gssapi.sasl.jaas.config": realm.jaas(SERVICE),
        f"{prefix}sasl.kerberos.service.name": "kafka",
        f"{prefix}sasl.kerberos.principal.to.local.rules": RULES,
        f"{prefix}connections.max.reauth.ms": "3600000",
    }


class _GssapiExchange(NamedTuple):
    """A client's GSSAPI authentication, with deviations from the protocol. `choice` is the client's final message (security layer and
    maximum size, RFC 4752); it is GSS-wrapped unless `bare`."""

    user: str = "ann"
    service: str = SERVICE
    mutual: bool = True
    first: Callable[[bytes], bytes] = lambda token: token
    between: bytes = b""
    choice: bytes = _CHOICE
    bare: bool = False
    encrypted: bool = False
    spnego: bool = False


EXCHANGES = {
    "right": _GssapiExchange(),
    "right, of another realm's kind": _GssapiExchange("Cleo/admin"),
    "right, by an expression": _GssapiExchange("gus/x"),
    "without mutual authentication": _GssapiExchange(mutual=False),
    "for another": _GssapiExchange(choice=_CHOICE + b"bob@R.TEST"),
    "for nobody in UTF-8": _GssapiExchange(choice=_CHOICE + b"\xff\xfe"),
    "that wants integrity": _GssapiExchange(choice=b"\x02\x00\x00\x00"),
    "that wants privacy": _GssapiExchange(choice=b"\x04\x00\xff\xff"),
    "that wants all": _GssapiExchange(choice=b"\x07\x00\xff\xff"),
    "that wants nothing": _GssapiExchange(choice=b"\x00\x00\x00\x00"),
    "that says nothing": _GssapiExchange(choice=b""),
    "that says one byte": _GssapiExchange(choice=b"\x01"),
    "that says one wrong byte": _GssapiExchange(choice=b"\x02"),
    "that says three bytes": _GssapiExchange(choice=b"\x01\x00\x00"),
    "that wraps nothing": _GssapiExchange(bare=True),
    "that sends no last token": _GssapiExchange(choice=b"", bare=True),
    "that encrypts": _GssapiExchange(encrypted=True),
    "that speaks in between": _GssapiExchange(between=b"x"),
    "for another service": _GssapiExchange(service=OTHER_SERVICE),
    "of SPNEGO": _GssapiExchange(spnego=True),
    "with a non-simple name": _GssapiExchange("eve"),
    "with a long name": _GssapiExchange("dan/a/b"),
    "empty": _GssapiExchange(first=lambda _: b""),
    "one byte": _GssapiExchange(first=lambda _: b"\x60"),
    "no frame": _GssapiExchange(first=lambda token: token[17:]),
    "raw": _GssapiExchange(first=lambda token: token[token.index(b"\x6e\x82") :]),
    "cut": _GssapiExchange(first=lambda token: token[:-9]),
    "changed": _GssapiExchange(first=lambda token: token[:-4] + bytes(byte ^ 1 for byte in token[-4:])),
    "of another mechanism": _GssapiExchange(first=lambda token: token.replace(_KERBEROS, _KERBEROS[:-1] + b"\x09")),
    "of PLAIN": _GssapiExchange(first=lambda _: b"\0ann\0ann"),
}
"""The exchanges by description. All are run with SaslAuthenticate requests, and those in `BARE` also with tokens without a header."""
BARE = ("right", "without mutual authentication", "that wants integrity", "empty", "that says one byte", "with a non-simple name")


@dataclass(slots=True)
class Tickets:
    """The Kerberos clients of a realm, which authenticate to the compared brokers in valid and invalid ways. The process has to run in the
    realm's environment."""

    realm: Realm
    offers: list[str] = field(default_factory=list)
    """The security layers that the brokers offered."""
    _credentials: dict[str, Any] = field(default_factory=dict)

    def run(self, port: int) -> list[Seen]:
        """Run all authentication attempts against the broker at `port`, and return the responses."""
        self.offers.clear()
        seen: list[Seen] = []
        for name, exchange in EXCHANGES.items():
            seen += self._log_ins(name, port, 1, [self._tokens(exchange)])
        for name in BARE:
            seen += self._log_ins(f"bare, {name}", port, 0, [self._tokens(EXCHANGES[name])])
        for user in ("ann", "bob", "eve"):
            seen += self._log_ins(f"again as {user}", port, 1, [self._tokens(EXCHANGES["right"]), self._tokens(_GssapiExchange(user))])
        seen += self._log_ins(
            "nobody, and again", port, 1, [self._tokens(EXCHANGES["with a non-simple name"]), self._tokens(EXCHANGES["right"])]
        )
        kept: list[bytes] = []

        def keep(token: bytes) -> bytes:
            kept.append(token)
            return token

        seen += self._log_ins("kept", port, 1, [self._tokens(_GssapiExchange(first=keep))])
        seen += self._log_ins("shown again", port, 1, [self._tokens(_GssapiExchange(first=lambda _: kept[0]))])
        return [*seen, Seen("offers", "GSSAPI", 1, list(self.offers))]

    def _of(self, user: str) -> Any:
        if user not in self._credentials:
            store = {"client_keytab": str(self.realm.keytab(user)), "ccache": self.realm.tickets(user)}
            name = gssapi.Name(f"{user}@{self.realm.name}", gssapi.NameType.kerberos_principal)
            self._credentials[user] = gssapi.Credentials(name=name, usage="initiate", store=store)
        return self._credentials[user]

    def _tokens(self, exchange: _GssapiExchange) -> Tokens:
        name = gssapi.Name(f"{exchange.service}@{self.realm.name}", gssapi.NameType.kerberos_principal)
        flags = _MUTUAL if exchange.mutual else gssapi.RequirementFlag.out_of_sequence_detection
        if exchange.spnego:
            credentials = gssapi.Credentials(
                usage="initiate", mechs=[_SPNEGO], store={"client_keytab": str(self.realm.keytab(exchange.user))}
            )
            yield gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", flags=flags, mech=_SPNEGO).step(None), True
            return
        context = gssapi.SecurityContext(name=name, creds=self._of(exchange.user), usage="initiate", flags=flags)
        answer = yield exchange.first(context.step(None)), False
        if exchange.mutual:
            context.step(answer)
            answer = yield exchange.between, False
        offer = raw.unwrap(context, answer).message
        self.offers.append(offer.hex())
        yield (exchange.choice if exchange.bare else raw.wrap(context, exchange.choice, confidential=exchange.encrypted).message), True

    def _log_ins(self, name: str, port: int, version: int, log_ins: list[Tokens]) -> list[Seen]:
        with Client(HOST, port, client_id="t", timeout_s=_TIMEOUT_S) as client:
            return [
                Seen(f"{name}: {number}", "GSSAPI", version, response) for number, response in enumerate(_played(client, version, log_ins))
            ]


def _played(client: Client, version: int, log_ins: list[Tokens]) -> Iterator[Plain]:
    """Run the log-ins one after the other on one connection, then one request. Yield the content of each response, without random values,
    until the broker or the client ends the authentication."""
    try:
        for tokens in log_ins:
            yield client.call(SaslHandshakeRequest("GSSAPI"), version).error_code
            response = yield from _logged_in(client, tokens) if version else _logged_in_bare(client, tokens)
            if response is not None:
                yield response
                break
        created = client.call(CreateDelegationTokenRequest(), 3)
        yield {"error_code": created.error_code, "user": created.principal_name}
    except OSError:
        yield "<closed>"


def _logged_in(client: Client, tokens: Tokens) -> Generator[Plain, None, str | None]:
    """Send the client's GSSAPI tokens in SaslAuthenticate requests, and yield the responses as plain values. Return the reason if the
    client gives up, None if the log-in ended otherwise."""
    sent: bytes | None = None
    while True:
        try:
            token, _ = next(tokens) if sent is None else tokens.send(sent)
        except StopIteration:
            return None
        except GSSError as error:
            return f"the client gives up: {error}"
        answer = client.call(SaslAuthenticateRequest(token), 2)
        sent = bytes(answer.auth_bytes)
        yield {
            "error_code": answer.error_code,
            "message": answer.error_message,
            "says something": bool(sent),
            "lifetime in hours": round(answer.session_lifetime_ms / 3_600_000),
        }
        if answer.error_code:
            return None


def _logged_in_bare(client: Client, tokens: Tokens) -> Generator[Plain, None, str | None]:
    """Send the client's GSSAPI tokens without request headers, as after SaslHandshake v0, and yield the responses as plain values. Return
    the reason if the client gives up, else None. The broker does not answer the last token."""
    sent: bytes | None = None
    while True:
        try:
            token, is_last = next(tokens) if sent is None else tokens.send(sent)
        except GSSError as error:
            return f"the client gives up: {error}"
        client.send_raw(struct.pack(">i", len(token)) + token)
        if is_last:
            return None
        sent = bytes(client.read_frame())
        yield bool(sent)
