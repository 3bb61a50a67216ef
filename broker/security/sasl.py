"""The SASL exchange of one connection: which request is valid in which state, and its response. This module does no I/O, does not use the
event loop, and takes the time as an argument.

Invariants:
* Before authentication a client may send ApiVersions (once, as its first request), SaslHandshake, and tokens. Tokens are sent in
  SaslAuthenticate requests or, after version 0 of the handshake, without a Kafka header. Anything else closes the connection without a
  response.
* The response to a failed authentication is delayed, and then the connection is closed, so that guessing passwords takes time
  (connection.failed.authentication.delay.ms). `Step.end` tells the caller what to do.
* A client that authenticates again must keep its principal and mechanism (KIP-368).
* No log message contains any part of a token.

Source: KAFKA SaslServerAuthenticator, KafkaChannel.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.broker.security.mechanism import InvalidSaslMessage, MakeMechanism, Mechanism, SaslAuthenticationError, SaslError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError, UnsupportedVersion
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.messages.k18_api_versions import ApiVersionsResponse
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.wire import Buffer

_SIZE: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">h")
_NAMES: Final = {int(key): key.name for key in ApiKey}
_NO_REQUEST: Final = (
    "Invalid request, potential reasons: kafka client configured with the wrong security protocol, it does not support KIP-43 or it is not "
    "a kafka client."
)
MIN_BETWEEN_MS: Final = 1000
"""The minimum time in ms between two re-authentications of one connection."""


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The SASL configuration of one listener. `lifetime_ms` maps each mechanism to its connections.max.reauth.ms (0: no limit). `delay_ms`
    is the delay after a failed authentication."""

    mechanisms: Mapping[str, MakeMechanism]
    max_receive_bytes: int
    delay_ms: int
    lifetime_ms: Mapping[str, int]


class AfterStep(Enum):
    """The action that the caller of `SaslExchange.take` must take on the connection afterwards."""

    CONTINUE = 0
    CLOSE = 1
    REJECT = 2
    """Send the response after a delay, and then close the connection."""


class Step(NamedTuple):
    """The result of processing one request or token of a client that authenticates. `end` tells the caller what to do with the connection;
    `why` is the reason for the log. If `to_dispatcher` is true, the broker's request dispatcher makes the response."""

    response: list[Buffer]
    end: AfterStep = AfterStep.CONTINUE
    why: str = ""
    to_dispatcher: bool = False


class SaslSession(NamedTuple):
    """The result of a successful authentication: the user, the mechanism, and the monotonic time in ms at which the session expires (None:
    never). If `user` is None, no request is served. `by_token`: the client used a delegation token."""

    user: str | None
    mechanism: str
    by_token: bool
    expires_mono_ms: int | None


class ClockReading(NamedTuple):
    """The present time, read from the wall clock and from the monotonic clock, in ms."""

    wall_ms: int
    mono_ms: int


class _State(Enum):
    FIRST = "no request was received"
    HANDSHAKE_OR_VERSIONS = "a request was received"
    HANDSHAKE = "ApiVersions was answered"
    TOKENS = "the mechanism was agreed on"
    OTHER_MECHANISM = "the mechanism differs from the previous one"


class SaslExchange:
    """One authentication of a connection. `before` is the session that a re-authentication renews (KIP-368); None for the connection's
    first authentication.

    `decode(frame)` decodes a request; it raises UnsupportedVersion for versions that the listener does not serve. `refuse(api_key, version,
    request, error, text)` makes the response that rejects a whole request. `software_is_valid` checks the client name and version in
    ApiVersions.
    """

    def __init__(
        self,
        listener: ListenerSasl,
        decode: Callable[[Buffer], Request],
        refuse: Callable[[int, int, Any, ErrorCode, str], Any],
        software_is_valid: Callable[[Any, int], bool],
        before: SaslSession | None = None,
    ) -> None:
        self._listener, self._decode, self._refuse = listener, decode, refuse
        self._software_is_valid, self._before = software_is_valid, before
        self._state = _State.FIRST if before is None else _State.HANDSHAKE_OR_VERSIONS
        self._name = ""
        self._mechanism: Mechanism
        self._framed = False
        self.done: SaslSession | None = None

    def take(self, frame: Buffer, now: ClockReading) -> Step:
        """Process one frame of the client (a request, or a token without a Kafka header). Return the response to send and the caller's next
        action. `now` is the present time."""
        if self._state is _State.OTHER_MECHANISM:
            assert self._before is not None
            why = f"SASL mechanism '{self._name}' requested by client is not supported for re-authentication of mechanism "
            return Step([], AfterStep.REJECT, f"{why}'{self._before.mechanism}'")
        if self._state is not _State.TOKENS:
            return self._request(frame)
        return self._framed_token(frame, now) if self._framed else self._bare_token(bytes(frame), now)

    # --- before the tokens -------------------------------------------------------------------------------------------------------

    def _request(self, frame: Buffer) -> Step:
        key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
        if key not in {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}:
            return self._no_request(f"Unexpected Kafka request of type {_named(key)} during SASL handshake.")
        version_is_known = True
        try:
            request = self._decode(frame)
            header, body = request.header, request.body
        except UnsupportedVersion as error:
            if error.api_key != ApiKey.API_VERSIONS:
                return self._no_request(str(error))
            version_is_known, header, body = False, RequestHeader(error.api_key, -1, error.correlation_id, None), None
        except ProtocolError as error:
            return self._no_request(str(error))
        if self._state is _State.FIRST:
            self._state = _State.HANDSHAKE_OR_VERSIONS
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, body)
        if self._state is not _State.HANDSHAKE_OR_VERSIONS or self._before is not None:
            return Step([], AfterStep.CLOSE, "Unexpected ApiVersions request received during SASL authentication")
        if version_is_known and self._software_is_valid(body, header.api_version):
            self._state = _State.HANDSHAKE
        return Step([], to_dispatcher=True)

    def _no_request(self, why: str) -> Step:
        return Step([], AfterStep.CLOSE, f"{_NO_REQUEST} ({why})" if self._state is _State.FIRST else why)

    def _handshake(self, header: RequestHeader, request: SaslHandshakeRequest) -> Step:
        self._framed = header.api_version >= 1
        known = request.mechanism in self._listener.mechanisms
        error = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = _response(header, SaslHandshakeResponse(error, list(self._listener.mechanisms)))
        if not known and self._before is not None:  # Kafka does not send the rejection of a renewed handshake: it closes the connection
            return Step([], AfterStep.CLOSE, "Unsupported SASL mechanism")
        if not known:
            return Step(answer, AfterStep.REJECT, "Unsupported SASL mechanism")
        self._name = request.mechanism
        if self._before is not None and self._before.mechanism != self._name:
            self._state = _State.OTHER_MECHANISM
        else:
            self._mechanism = self._listener.mechanisms[self._name]()
            self._state = _State.TOKENS
        return Step(answer)

    # --- tokens ------------------------------------------------------------------------------------------------------------------

    def _bare_token(self, token: bytes, now: ClockReading) -> Step:
        """Process a token that the client sent without a Kafka header, after version 0 of SaslHandshake. If authentication fails, there is
        no response."""
        try:
            answer = self._evaluated(token, now)
        except (SaslError, InvalidSaslMessage) as error:
            return Step([], AfterStep.CLOSE, str(error))
        except SaslAuthenticationError as error:
            return Step([], AfterStep.REJECT, str(error))
        return Step([] if answer is None else [_SIZE.pack(len(answer)) + answer])

    def _framed_token(self, frame: Buffer, now: ClockReading) -> Step:
        try:
            request = self._decode(frame)
        except UnsupportedVersion as error:
            why = str(error)
            if error.api_key != ApiKey.API_VERSIONS:
                return Step([], AfterStep.CLOSE, why)
            header = RequestHeader(error.api_key, 0, error.correlation_id, None)  # ApiVersions is answered with version 0
            return Step(_response(header, ApiVersionsResponse(ErrorCode.ILLEGAL_SASL_STATE)), AfterStep.REJECT, why)
        except ProtocolError as error:
            return Step([], AfterStep.CLOSE, str(error))
        header, body = request.header, request.body
        if not isinstance(body, SaslAuthenticateRequest):
            why = f"Unexpected Kafka request of type {_named(header.api_key)} during SASL authentication."
            if header.api_key == ApiKey.PRODUCE and getattr(body, "acks", 1) == 0:
                return Step([], AfterStep.CLOSE, why)
            response = self._refuse(header.api_key, header.api_version, body, ErrorCode.ILLEGAL_SASL_STATE, why)
            return Step(_response(header, response), AfterStep.REJECT, why)
        try:
            answer = self._evaluated(bytes(body.auth_bytes), now)
        except SaslAuthenticationError as error:
            return _refused(header, str(error), str(error))
        except InvalidSaslMessage as error:
            return Step([], AfterStep.CLOSE, str(error))
        except SaslError as error:
            again = "authentication" if self._before is None else "re-authentication"
            error_message = f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._name}"
            return _refused(header, error_message, f"{error_message}: {error}")
        lifetime_ms = 0
        if self.done is not None and self.done.expires_mono_ms is not None:
            lifetime_ms = max(0, self.done.expires_mono_ms - now.mono_ms)
        return Step(_response(header, SaslAuthenticateResponse(auth_bytes=answer or b"", session_lifetime_ms=lifetime_ms)))

    def _evaluated(self, token: bytes, now: ClockReading) -> bytes | None:
        """Pass the client's token to the SASL mechanism, and return the mechanism's response. When authentication is complete, store the
        session in `done`. If authentication fails, or a re-authentication changes the user, raises SaslAuthenticationError, SaslError or
        InvalidSaslMessage."""
        mechanism = self._mechanism
        answer = mechanism.evaluate(token)
        if mechanism.complete:
            if self._before is not None and mechanism.user is None:
                raise InvalidSaslMessage("no rule maps the principal of the re-authentication to a name")
            if self._before is not None and self._before.user != mechanism.user:
                raise SaslAuthenticationError(
                    f"Cannot change principals during re-authentication from User.{self._before.user}: User.{mechanism.user}"
                )
            self.done = SaslSession(mechanism.user, self._name, mechanism.by_token, self._expiry(mechanism, now))
        return answer

    def _expiry(self, mechanism: Mechanism, now: ClockReading) -> int | None:
        """Return the monotonic time in ms at which the session expires: the earlier of the broker's limit (connections.max.reauth.ms) and
        the expiry of the client's credentials. If the credentials have expired already, the time is in the past. None means never."""
        granted = self._listener.lifetime_ms.get(self._name, 0)
        left = [granted] if granted > 0 else []
        if mechanism.expires_ms is not None:
            left.append(mechanism.expires_ms - now.wall_ms)
        if not left:
            return None
        return now.mono_ms + min(left) if min(left) > 0 else now.mono_ms - 1


def _named(api_key: int) -> str:
    return _NAMES.get(api_key, f"unknown key {api_key}")


def _refused(header: RequestHeader, error_message: str, why: str) -> Step:
    return Step(_response(header, SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, error_message)), AfterStep.REJECT, why)


def _response(header: RequestHeader, response: Any) -> list[Buffer]:
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)
