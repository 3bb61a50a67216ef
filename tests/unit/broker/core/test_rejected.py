from __future__ import annotations

from ottla.broker.core.rejected import MESSAGE_CHARS_MAX, Rejected
from ottla.protocol.error_codes import ErrorCode


def test_a_rejection_is_printed_as_code_and_message() -> None:
    assert str(Rejected(ErrorCode.INVALID_CONFIG, "no")) == "INVALID_CONFIG: no"
    assert str(Rejected(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"


def test_a_message_that_quotes_a_peer_is_cut_to_the_response_fields_limit() -> None:
    rejected = Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, "x" * 70_000)
    assert len(rejected.message) == MESSAGE_CHARS_MAX + 1
    assert len(str(rejected)) < 2 * MESSAGE_CHARS_MAX
