from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ottla.broker.api.error_response import error_response
from ottla.broker.api.k18_api_versions import is_valid
from ottla.broker.security.plain import Plain
from ottla.broker.security.sasl import AfterStep, ClockReading, ListenerSasl, SaslExchange, SaslSession, Step
from ottla.protocol.codec import decode_request, encode_request
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.support.logins import plain

NOW = ClockReading(1_000_000, 5_000)
USERS = {"ann": "pass word", "bob": "b"}
ANN = SaslSession("ann", "PLAIN", False, 6_000)


def exchange(before: SaslSession | None = None, lifetime_ms: int = 0, expires_ms: int | None = None) -> SaslExchange:
    class Mechanism(Plain):
        pass

    Mechanism.expires_ms = expires_ms  # type: ignore[assignment] # PLAIN's own value is always None
    lock = ListenerSasl({"PLAIN": lambda: Mechanism(USERS), "OTHER": lambda: Mechanism(USERS)}, 1000, 100, {"PLAIN": lifetime_ms})
    return SaslExchange(lock, decode_request, error_response, is_valid, before)


def frame(request: Any, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 1, None, request))[4:]


FRAMES = {
    "versions": frame(ApiVersionsRequest("test", "1"), 3),
    "bad versions": frame(ApiVersionsRequest("", ""), 3),
    "new versions": b"\0\x12\0\x63\0\0\0\1\xff\xff",
    "handshake": frame(SaslHandshakeRequest("PLAIN"), 1),
    "old handshake": frame(SaslHandshakeRequest("PLAIN"), 0),
    "bad handshake": frame(SaslHandshakeRequest("X"), 1),
    "token": frame(SaslAuthenticateRequest(plain()), 2),
    "bad token": frame(SaslAuthenticateRequest(plain(password="x")), 2),
    "bare token": plain(),
    "bad bare token": plain(password="x"),
    "metadata": frame(MetadataRequest([]), 1),
    "garbage": b"GET / HTTP/1.1",
    "nothing": b"",
}
PASSES, GOES_ON, CLOSES, REFUSED, IN = "passes", "goes on", "closes", "refused", "in"


def outcome(machine: SaslExchange, step: Step) -> str:
    if machine.done is not None:
        return IN
    return PASSES if step.to_dispatcher else {AfterStep.CONTINUE: GOES_ON, AfterStep.CLOSE: CLOSES, AfterStep.REJECT: REFUSED}[step.end]


FIRST = {
    "versions": PASSES,
    "bad versions": PASSES,
    "new versions": PASSES,
    "handshake": GOES_ON,
    "old handshake": GOES_ON,
    "bad handshake": REFUSED,
}
TABLE: dict[tuple[str, ...], dict[str, str]] = {
    (): FIRST,
    ("bad versions",): FIRST,
    ("new versions", "bad versions"): FIRST,
    ("versions",): {"handshake": GOES_ON, "old handshake": GOES_ON, "bad handshake": REFUSED},
    ("versions", "handshake"): {
        "token": IN,
        **dict.fromkeys(["bad token", "metadata", "versions", "bad versions", "new versions"], REFUSED),
        **dict.fromkeys(["handshake", "old handshake", "bad handshake"], REFUSED),
    },
    ("old handshake",): {"bare token": IN, **dict.fromkeys([name for name in FRAMES if name != "bare token"], REFUSED)},
}
"""The outcome of each frame by the frames before it. Frames that are not listed close the connection."""


@pytest.mark.parametrize(("before", "name"), list(product(TABLE, FRAMES)))
def test_every_frame_in_every_state_has_the_listed_outcome(before: tuple[str, ...], name: str) -> None:
    machine = exchange()
    for earlier in before:
        assert outcome(machine, machine.take(FRAMES[earlier], NOW)) in {PASSES, GOES_ON}
    step = machine.take(FRAMES[name], NOW)
    assert outcome(machine, step) == TABLE[before].get(name, CLOSES)
    if step.end is AfterStep.CLOSE or (before == ("old handshake",) and step.end is AfterStep.REJECT):
        assert step.response == []
    assert "pass word" not in step.why


def test_a_session_expires_at_the_earlier_of_the_brokers_limit_and_the_credentials_expiry() -> None:
    for lifetime_ms, expires_ms, expected in ((0, None, None), (70, None, 70), (0, 1_000_050, 50), (70, 1_000_050, 50), (70, 999_999, -1)):
        machine = exchange(lifetime_ms=lifetime_ms, expires_ms=expires_ms)
        machine.take(FRAMES["handshake"], NOW)
        machine.take(FRAMES["token"], NOW)
        assert machine.done is not None
        assert machine.done.expires_mono_ms == (None if expected is None else 5_000 + expected)


def test_reauthentication_begins_with_a_handshake_for_the_same_mechanism() -> None:
    for name, expected in (("versions", CLOSES), ("handshake", GOES_ON), ("bad handshake", CLOSES), ("token", CLOSES)):
        machine = exchange(ANN)
        assert outcome(machine, machine.take(FRAMES[name], NOW)) == expected
    machine = exchange(ANN)
    assert outcome(machine, machine.take(frame(SaslHandshakeRequest("OTHER"), 1), NOW)) == GOES_ON
    step = machine.take(FRAMES["token"], NOW)
    assert (step.end, step.response) == (AfterStep.REJECT, [])
    assert step.why == "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of mechanism 'PLAIN'"


def test_reauthentication_keeps_the_principal() -> None:
    for user, password, comes_in in (("ann", "pass word", True), ("bob", "b", False)):
        machine = exchange(ANN)
        machine.take(FRAMES["handshake"], NOW)
        machine.take(frame(SaslAuthenticateRequest(plain(user, password)), 1), NOW)
        assert (machine.done is not None) is comes_in
