from __future__ import annotations

from pathlib import Path

from ottla.broker.core.clock import VirtualClock
from ottla.protocol.error_codes import ErrorCode
from tests.support.access import ann, bob
from tests.support.running_broker import RunningBroker
from tests.support.tokens import DAY_MS, WITH_TOKENS, create_token, log_in_by_token, renew_token

NOW = VirtualClock().now_ms()


def test_the_owner_and_renewers_can_renew_a_token(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, ann(broker) as client, bob(broker) as other:
        token, others = create_token(client), create_token(other, None, "ann")
        broker.clock.advance(1)
        for version in (1, 2):
            answer = renew_token(client, bytes(token.hmac), 5_000, version)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (0, NOW + 6_000)
        assert renew_token(client, bytes(others.hmac), 0).expiry_timestamp_ms == NOW + 1_000 + DAY_MS, "bob's, who named her"
        with broker.client() as user:
            assert log_in_by_token(user, token.token_id, bytes(token.hmac)).session_lifetime_ms == 5_000
        for who, proof, code in (
            (other, bytes(token.hmac), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
            (client, b"x" * 64, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
            (client, b"", ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        ):
            refused = renew_token(who, proof)
            assert (refused.error_code, refused.expiry_timestamp_ms) == (code, 0)
        broker.clock.advance(5.001)
        assert renew_token(client, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
