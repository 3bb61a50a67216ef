from __future__ import annotations

from pathlib import Path

from ottla.broker.core.clock import VirtualClock
from ottla.protocol.error_codes import ErrorCode
from tests.support.access import ann, bob
from tests.support.running_broker import RunningBroker
from tests.support.tokens import DAY_MS, WITH_TOKENS, create_token, describe_tokens, expire_token

NOW = VirtualClock().now_ms()


def test_the_owner_and_renewers_can_expire_a_token(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, ann(broker) as client, bob(broker) as other:
        token = create_token(client)
        for version in (1, 2):
            answer = expire_token(client, bytes(token.hmac), 5_000, version)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (0, NOW + 5_000)
        assert expire_token(other, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (expire_token(client, bytes(token.hmac)).expiry_timestamp_ms, describe_tokens(client).tokens) == (NOW, [])
        assert expire_token(client, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_at_intervals(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, ann(broker) as client:
        token, _ = create_token(client, lasts_ms=1_000), create_token(client)
        broker.clock.advance(1.001)
        assert [each.token_id for each in describe_tokens(client).tokens][:1] == [token.token_id], "nobody has looked yet"
        broker.clock.advance(3600)  # delegation.token.expiry.check.interval.ms
        broker.call_until(lambda broker: len(broker.services.topics.image.delegation_tokens) == 1)
        assert [each.max_timestamp for each in describe_tokens(client).tokens] == [NOW + 7 * DAY_MS]
